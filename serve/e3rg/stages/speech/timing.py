"""When each phoneme is heard: the network's own durations, trimmed to the sound."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from e3rg.media.types import Phoneme
from e3rg.stages.speech.g2p import PAUSES
from e3rg.stages.speech.sound import Samples, levels_db

_STRESS = frozenset("ˈˌ")
# Kokoro's letters for two sounds, as IPA, with the share of the first.
_PAIRS = {
    "A": ("e", "ɪ", 0.6), "I": ("a", "ɪ", 0.6), "O": ("o", "ʊ", 0.6), "Q": ("ə", "ʊ", 0.5),
    "W": ("a", "ʊ", 0.6), "Y": ("ɔ", "ɪ", 0.6), "ʧ": ("t", "ʃ", 0.35), "ʤ": ("d", "ʒ", 0.35),
}  # fmt: skip
_SINGLE = {"ɐ": "ə", "ᵊ": "ə", "ᵻ": "ɪ", "T": "ɾ"}
_STOPS = frozenset("pbtdkɡʧʤ")

# The sound runs ahead of the durations: 53 ms on average over six voices and three sentences
# (45 to 65 ms), found by correlating loudness with the sonority of the phonemes. The aligner that
# the network learned its durations from was late by as much.
_LATENESS_S = 0.050

_STEP_S = 0.005
_QUIET_DB = 32.0  # below the loudest frame: a pause, or the silent part of a stop
_CLOSURE_S = 0.045  # a stop's silent closure before its burst
_LEAST_S = 0.020
_PAUSE_S = 0.040  # a shorter quiet stretch between words is not seen on the mouth


def phoneme_times(
    symbols: str, frames: NDArray[np.int64], samples: Samples, rate: int, frame_samples: int
) -> list[Phoneme]:
    """Time the phonemes of one synthesised piece.

    The durations of stress marks go to the vowel that follows, those of length marks to the vowel
    before, and those of word gaps to the word before as long as sound goes on: only heard pauses
    are gaps. Speech that dies away inside a phoneme ends it.

    Args:
        symbols: Kokoro's symbols, without the silent tokens at both ends.
        frames: durations of ``len(symbols) + 2`` tokens.
        samples: the sound.
        rate: Hz.
        frame_samples: samples a duration frame.
    """
    edges = np.concatenate([[0], np.cumsum(frames)]) * frame_samples / rate - _LATENESS_S
    edges = np.clip(edges, 0, len(samples) / rate)
    sounds: list[tuple[str, float, float]] = []
    begun: float | None = None
    for i, symbol in enumerate(symbols, start=1):
        start, end = float(edges[i]), float(edges[i + 1])
        if symbol in _STRESS:
            begun = start if begun is None else begun
        elif symbol == "ː" and sounds:
            sounds[-1] = (sounds[-1][0], sounds[-1][1], end)
        elif symbol == " " or symbol in PAUSES:
            begun = None
        else:
            sounds.append((symbol, start if begun is None else begun, end))
            begun = None
    return _split(_fit(sounds, _heard(samples, rate), len(samples) / rate))


def _heard(samples: Samples, rate: int) -> NDArray[np.bool_]:
    """Per 5 ms step, whether there is sound."""
    levels = levels_db(samples, int(rate * _STEP_S))
    heard: NDArray[np.bool_] = levels > (levels.max() if len(levels) else 0) - _QUIET_DB
    return heard


def _fit(
    sounds: Sequence[tuple[str, float, float]], heard: NDArray[np.bool_], length: float
) -> list[tuple[str, float, float]]:
    """Close gaps in which sound goes on, and trim phonemes that face a pause."""
    fitted: list[tuple[str, float, float]] = []
    for i, (symbol, start, end) in enumerate(sounds):
        after = sounds[i + 1][1] if i + 1 < len(sounds) else length
        before = fitted[-1][2] if fitted else 0.0
        if before < start - _STEP_S or not fitted:  # a pause on the left
            closure = _CLOSURE_S if symbol in _STOPS else 0.0
            first = _first(heard, start, end)
            start = max(start, before, min(first - closure, end - _LEAST_S))
        if after > end or i + 1 == len(sounds):
            # The silence inside a stop is no pause. Sound up to the next phoneme: no pause either.
            pause = _pause(heard, end if symbol in _STOPS else start + _LEAST_S, after)
            end = after if pause is None else pause
        fitted.append((symbol, start, min(max(end, start + _LEAST_S), after)))
    return fitted


def _first(heard: NDArray[np.bool_], start: float, end: float) -> float:
    at = np.flatnonzero(heard[int(start / _STEP_S) : int(end / _STEP_S) + 1])
    return start + float(at[0]) * _STEP_S if len(at) else start


def _pause(heard: NDArray[np.bool_], start: float, end: float) -> float | None:
    """Start of the first quiet stretch that is long enough for a pause, or that ends the sound."""
    begin, stop = int(start / _STEP_S), min(int(end / _STEP_S), len(heard))
    quiet = 0
    for at in range(begin, stop):
        quiet = 0 if heard[at] else quiet + 1
        if quiet * _STEP_S >= _PAUSE_S:
            return (at + 1 - quiet) * _STEP_S
    return (stop - quiet) * _STEP_S if quiet and stop == len(heard) else None


def _split(sounds: Sequence[tuple[str, float, float]]) -> list[Phoneme]:
    """Kokoro's symbols to plain IPA, two for a diphthong or affricate."""
    phonemes: list[Phoneme] = []
    for symbol, start, end in sounds:
        if symbol in _PAIRS:
            first, second, share = _PAIRS[symbol]
            middle = start + (end - start) * share
            phonemes += [Phoneme(first, start, middle), Phoneme(second, middle, end)]
        else:
            phonemes.append(Phoneme(_SINGLE.get(symbol, symbol), start, end))
    return phonemes
