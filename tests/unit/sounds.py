"""Sounds made by code, for tests of hearing."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
from numpy.typing import ArrayLike, NDArray

from e3rg.media.types import SPEECH_INPUT_RATE, Pcm

RATE = SPEECH_INPUT_RATE


def pcm(samples: ArrayLike, rate: int = RATE) -> Pcm:
    """Samples from -1 to 1 as PCM16."""
    clipped = np.clip(np.asarray(samples, dtype=np.float64), -1, 1)
    return Pcm((clipped * 32767).astype("<i2").tobytes(), rate)


def samples(audio: Pcm) -> NDArray[np.float64]:
    """PCM16 as samples from -1 to 1."""
    return np.frombuffer(audio.data, "<i2").astype(np.float64) / 32768


def noise(seconds: float, level: float = 0.1, seed: int = 0) -> Pcm:
    """White noise."""
    return pcm(np.random.default_rng(seed).standard_normal(int(seconds * RATE)) * level)


def tone(seconds: float, hertz: float = 220.0) -> Pcm:
    """A sine."""
    return pcm(0.3 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * RATE)) / RATE))


def babble(
    seconds: float,
    *,
    pitch: float = 150.0,
    swing: float = 3.0,
    tilt: float = 1.5,
    rate: float = 3.5,
    seed: int = 0,
) -> Pcm:
    """A voice that says nothing: harmonics of a moving pitch in syllables.

    Args:
        seconds: duration.
        pitch: Hz, in the middle of the range.
        swing: semitones up and down.
        tilt: harmonic n has the amplitude n ** -tilt; less is more pressed.
        rate: syllables in a second.
        seed: of the breath noise.
    """
    time = np.arange(int(seconds * RATE)) / RATE
    contour = pitch * 2 ** (swing / 12 * np.sin(2 * np.pi * 0.7 * time))
    phase = 2 * np.pi * np.cumsum(contour) / RATE
    highest = int(4000 / contour.max())
    voice = sum(n**-tilt * np.sin(n * phase) for n in range(1, highest + 1))
    syllables = np.clip(1.2 * np.sin(np.pi * rate * time) ** 2, 0.01, 1.0)
    breath = np.random.default_rng(seed).standard_normal(time.size) * 0.002
    return pcm(0.3 * voice / np.abs(voice).max() * syllables + breath)


def read(path: Path, rate: int = RATE) -> Pcm:
    """Decode a sound file."""
    resampler = av.AudioResampler("s16", "mono", rate)
    with av.open(str(path)) as file:
        frames = [out for frame in file.decode(audio=0) for out in resampler.resample(frame)]
    frames += resampler.resample(None)
    return Pcm(b"".join(frame.to_ndarray().tobytes() for frame in frames), rate)
