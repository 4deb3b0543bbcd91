"""Phoneme timing → mouth shape, frame by frame, with coarticulation.

Each sound pulls every mouth parameter towards its target with a strength that fades with time from
the sound's centre (dominance functions, Cohen and Massaro 1993, "Modeling coarticulation in
synthetic visual speech"). Closures of m, b and p, and silence, are then imposed, since a missed
closure is what people see first.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from e3rg.media.types import Pcm, Phoneme

FloatArray = NDArray[np.floating[Any]]


class Mouth(NamedTuple):
    """One mouth shape; 0 everywhere is a closed, relaxed mouth.

    Attributes:
        jaw: 0 to 1, opening.
        width: −1 (narrow) to 1 (spread).
        pucker: 0 to 1, lips pushed forward and rounded.
        press: 0 to 1, lips rolled in and pressed.
        upper: 0 to 1, upper lip raised off the teeth.
        lower: −1 (lower lip tucked under the upper teeth) to 1 (dropped off the lower teeth).
        tongue: 0 to 1, tip raised towards the upper teeth.
    """

    jaw: float = 0.0
    width: float = 0.0
    pucker: float = 0.0
    press: float = 0.0
    upper: float = 0.0
    lower: float = 0.0
    tongue: float = 0.0


REST = Mouth()
_CLOSED = Mouth(press=0.75)

_VOWELS = {
    "ɑ": Mouth(0.82, 0.05, upper=0.15, lower=0.25),
    "a": Mouth(0.78, 0.15, upper=0.2, lower=0.3),
    "æ": Mouth(0.70, 0.40, upper=0.3, lower=0.35),
    "ʌ": Mouth(0.55, 0.05, upper=0.15, lower=0.2),
    "ə": Mouth(0.34, 0.05, upper=0.12, lower=0.2),
    "ɛ": Mouth(0.50, 0.35, upper=0.3, lower=0.35),
    "ɜ": Mouth(0.38, -0.15, 0.25, upper=0.15, lower=0.2),
    "e": Mouth(0.42, 0.45, upper=0.3, lower=0.35),
    "ɪ": Mouth(0.32, 0.40, upper=0.3, lower=0.3),
    "i": Mouth(0.22, 0.70, upper=0.4, lower=0.45),
    "ɒ": Mouth(0.68, -0.30, 0.35, lower=0.2),
    "ɔ": Mouth(0.60, -0.45, 0.50, lower=0.15),
    "o": Mouth(0.46, -0.65, 0.70, lower=0.1),
    "ʊ": Mouth(0.30, -0.55, 0.60, lower=0.1),
    "u": Mouth(0.22, -0.85, 0.95, lower=0.05),
    "y": Mouth(0.20, -0.80, 0.90),
    "ø": Mouth(0.36, -0.60, 0.65),
}
_CONSONANTS = {
    "m": _CLOSED,
    "b": _CLOSED,
    "p": _CLOSED,
    "f": Mouth(0.10, 0.10, upper=0.55, lower=-0.75),
    "s": Mouth(0.14, 0.35, upper=0.45, lower=0.45),
    "t": Mouth(0.18, 0.20, upper=0.3, lower=0.3, tongue=0.8),
    "n": Mouth(0.20, 0.15, upper=0.25, lower=0.25, tongue=0.8),
    "l": Mouth(0.28, 0.10, upper=0.25, lower=0.2, tongue=1.0),
    "θ": Mouth(0.22, 0.10, upper=0.3, lower=0.15, tongue=0.9),
    "ʃ": Mouth(0.18, -0.50, 0.65, upper=0.45, lower=0.4),
    "ɹ": Mouth(0.22, -0.40, 0.50, upper=0.1, lower=0.1),
    "w": Mouth(0.14, -0.90, 1.0),
    "j": Mouth(0.20, 0.50, upper=0.3, lower=0.3),
    "k": Mouth(0.26, 0.10, upper=0.15, lower=0.2),
    "h": Mouth(0.30, 0.05, upper=0.1, lower=0.15),
}
_SAME = {
    "v": "f", "z": "s", "d": "t", "ɾ": "t", "T": "t", "ɫ": "l", "ð": "θ", "ʒ": "ʃ",
    "ɡ": "k", "g": "k", "ŋ": "k", "x": "k", "q": "k", "c": "k", "ʔ": "k", "r": "ɹ", "ʁ": "k",
    "ɲ": "n", "ʎ": "l", "ɥ": "w", "ç": "j", "β": "b", "ɸ": "f", "ɕ": "ʃ", "ʂ": "ʃ", "ʐ": "ʃ",
    "ᵊ": "ə", "ɐ": "ə", "ᵻ": "ɪ", "ɨ": "ɪ", "ɚ": "ɜ", "ɝ": "ɜ",
}  # fmt: skip
# Kokoro writes a diphthong or affricate as one character.
_PAIRS = {
    "A": "eɪ", "I": "aɪ", "O": "oʊ", "W": "aʊ", "Y": "ɔɪ", "Q": "əʊ", "ʤ": "tʃ", "ʧ": "tʃ",
    "ʦ": "ts", "ʣ": "ts",
}  # fmt: skip
_PAUSES = frozenset('.,;:!?…—–-"“”()«»¡¿')

# How hard a consonant pulls, against 1 for a vowel: tongue sounds leave the lips to the vowels.
_STRENGTH = {"k": 0.35, "h": 0.25, "t": 0.6, "n": 0.6, "l": 0.6, "θ": 0.8, "f": 2.5, "w": 1.6}
_STRENGTH |= {"m": 1.0, "b": 1.0, "p": 1.0, "ʃ": 1.5, "s": 1.0, "ɹ": 0.9, "j": 0.7}

_REACH_S = 0.045  # time constant with which a sound's pull fades outside it
_RAMP_S = 0.040  # one frame: how early or late lips may start to part or meet
_MIN_CLOSURE_S = 0.042  # just over a frame, so that every closure is seen on one
_MIN_PAUSE_S = 0.12  # a shorter quiet stretch is a stop consonant, not silence
_QUIET = 10 ** (-50 / 20)  # RMS relative to full scale


class _Pull(NamedTuple):
    start: float
    end: float
    strength: float
    shape: Mouth
    closes: bool


def mouth_track(phonemes: Sequence[Phoneme], audio: Pcm, frames: int, fps: int) -> FloatArray:
    """Mouth shapes at the middle of each frame.

    Phonemes may lie partly or wholly outside the audio: those are neighbours that the first and
    last frames are coarticulated with.

    Args:
        phonemes: mouth timing; empty means that the mouth follows the sound's energy.
        audio: the segment's sound.
        frames: number of frames.
        fps: frames a second.

    Returns:
        Shape (frames, 7), columns as in Mouth; exactly zero in silence.
    """
    if frames == 0:
        return np.zeros((0, len(REST)), np.float32)
    level = _levels(audio, frames, fps)
    times = (np.arange(frames) + 0.5) / fps
    track = _from_phonemes(phonemes, times) if phonemes else _from_energy(level)
    return np.asarray(track * _sound_gate(level, fps)[:, np.newaxis], np.float32)


def _from_phonemes(phonemes: Sequence[Phoneme], times: NDArray[np.float64]) -> FloatArray:
    pulls = [pull for phoneme in phonemes for pull in _pulls(phoneme)]
    if not pulls:
        return np.zeros((len(times), len(REST)), np.float32)
    start = np.array([pull.start for pull in pulls])
    end = np.array([pull.end for pull in pulls])
    t = times[:, np.newaxis]
    centre, half = (start + end) / 2, (end - start) / 2
    outside = np.maximum(np.abs(t - centre) - 0.5 * half, 0.0)
    strength = np.array([pull.strength for pull in pulls])
    # The small constant keeps 0/0 away far from every sound; the speech gate closes those frames.
    weight = strength * np.exp(-outside / (_REACH_S + 0.25 * half)) + 1e-9
    shapes = np.array([pull.shape for pull in pulls])
    track = (weight @ shapes) / weight.sum(axis=1, keepdims=True)
    track *= _speech_gate(start, end, times)[:, np.newaxis]
    for pull in pulls:
        if pull.closes:
            centre_s = (pull.start + pull.end) / 2
            plateau = max(pull.end - pull.start, _MIN_CLOSURE_S) / 2
            closed = np.clip(1 - (np.abs(times - centre_s) - plateau) / _RAMP_S, 0, 1)
            closed = (closed * closed * (3 - 2 * closed))[:, np.newaxis]
            target = np.tile(np.array(pull.shape), (len(times), 1))
            # Lips keep half of the rounding that the vowels around the closure ask for.
            target[:, 1:3] = 0.5 * track[:, 1:3]
            track = track * (1 - closed) + target * closed
    return np.asarray(track, np.float32)


def _pulls(phoneme: Phoneme) -> list[_Pull]:
    symbols = [part for char in phoneme.symbol for part in _PAIRS.get(char, char)]
    symbols = [_SAME.get(symbol, symbol) for symbol in symbols]
    symbols = [symbol for symbol in symbols if symbol in _VOWELS or symbol in _CONSONANTS]
    length = (phoneme.end - phoneme.start) / max(len(symbols), 1)
    pulls = []
    for index, symbol in enumerate(symbols):
        shape = _VOWELS.get(symbol) or _CONSONANTS[symbol]
        start = phoneme.start + index * length
        strength = _STRENGTH.get(symbol, 1.0)
        pulls.append(_Pull(start, start + length, strength, shape, shape is _CLOSED))
    return pulls


def _speech_gate(
    start: NDArray[np.float64], end: NDArray[np.float64], times: NDArray[np.float64]
) -> NDArray[np.float64]:
    """1 while sounds follow each other, 0 in pauses, with ramps of one frame."""
    spans: list[list[float]] = []
    for low, high in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        if spans and low - spans[-1][1] < _MIN_PAUSE_S:
            spans[-1][1] = max(spans[-1][1], high)
        else:
            spans.append([low, high])
    gate = np.zeros_like(times)
    for low, high in spans:
        ramp = np.minimum(times - low, high - times) / _RAMP_S
        gate = np.maximum(gate, np.clip(0.5 + 0.5 * ramp, 0, 1))
    return gate


def _levels(audio: Pcm, frames: int, fps: int) -> NDArray[np.float64]:
    """RMS of each frame's own samples, 1 = full scale."""
    samples = np.frombuffer(audio.data, "<i2").astype(np.float64) / 32768
    edges = np.arange(frames + 1) * audio.sample_rate // fps
    return np.array(
        [
            np.sqrt(np.mean(samples[a:b] ** 2)) if b > a and a < len(samples) else 0.0
            for a, b in itertools.pairwise(edges)
        ]
    )


def _sound_gate(level: NDArray[np.float64], fps: int) -> NDArray[np.float64]:
    """0 on frames of a quiet stretch, 1 elsewhere; timing may be wrong, silence is not."""
    gate = np.ones_like(level)
    longest_stop = int(_MIN_PAUSE_S * fps)
    n = len(level)
    start = None
    for i in range(n + 1):
        if i < n and level[i] < _QUIET * 0.5:
            start = i if start is None else start
        elif start is not None:
            # What lies beyond the segment's ends is unknown; sentences begin and end in silence.
            if i - start > longest_stop or start == 0 or i == n:
                gate[start:i] = 0.0
            start = None
    return gate


def _from_energy(level: NDArray[np.float64]) -> FloatArray:
    """Opening from loudness on a log scale; used when there is no phoneme timing."""
    decibel = 20 * np.log10(np.maximum(level, 1e-6))
    opening = np.clip((decibel + 46) / 34, 0, 1)
    padded = np.pad(opening, 1, mode="edge")
    smooth = 0.2 * padded[:-2] + 0.6 * padded[1:-1] + 0.2 * padded[2:]
    smooth = np.where(level < _QUIET, 0.0, smooth)
    shape = np.array(Mouth(0.62, 0.12, 0.0, 0.0, 0.25, 0.3, 0.15))
    return np.asarray(smooth[:, np.newaxis] * shape, np.float32)
