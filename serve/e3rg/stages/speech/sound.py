"""Finishing of synthesised sound: loudness, brightness, limits, fades. Float samples, −1 to 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

TARGET_DBFS = -20.0
"""RMS of the spoken parts of a neutral sentence, dB relative to full scale."""

_KNEE, _CEILING = 0.80, 0.98
_FADE_S = 0.010
_SHELF_HZ, _SHELF_OCTAVES = 2000.0, 1.0
_TRIM_DB = 45.0  # quiet enough to keep the breath of an h or f
_FLOOR_DB = 40.0  # frames further below the loudest are pauses


def levels_db(samples: Samples, frame: int) -> Samples:
    """RMS in dBFS of consecutive whole frames of ``frame`` samples (the last one padded)."""
    frames = -(-len(samples) // frame)
    padded = np.zeros(frames * frame, np.float32)
    padded[: len(samples)] = samples
    power = np.mean(np.square(padded.reshape(frames, frame)), axis=1)
    result: Samples = (10 * np.log10(power + 1e-12)).astype(np.float32)
    return result


def spoken_level_db(samples: Samples, rate: int) -> float:
    """RMS in dBFS over the 20 ms frames that are not pauses; −120 for silence."""
    if not len(samples):
        return -120.0
    levels = levels_db(samples, rate // 50)
    spoken = levels[levels > levels.max() - _FLOOR_DB]
    return float(10 * np.log10(np.mean(10 ** (spoken / 10))))


def trim(samples: Samples, rate: int, *, before_s: float, after_s: float) -> tuple[int, int]:
    """First and last sample to keep, so that little silence stands before and after the speech."""
    step = rate // 200
    levels = levels_db(samples, step)
    heard = np.flatnonzero(levels > levels.max() - _TRIM_DB)
    first = int(heard[0]) * step - int(before_s * rate)
    last = (int(heard[-1]) + 1) * step + int(after_s * rate)
    return max(first, 0), min(last, len(samples))


def finish(samples: Samples, rate: int, *, gain_db: float, brightness_db: float) -> Samples:
    """Bring speech to its loudness, free of clipping, with faded ends.

    Args:
        samples: mono speech.
        rate: Hz.
        gain_db: loudness relative to TARGET_DBFS.
        brightness_db: high-shelf gain around 2 kHz.
    """
    if brightness_db:
        samples = _shelf(samples, rate, brightness_db)
    level = spoken_level_db(samples, rate)
    if level <= -100:
        return np.zeros_like(samples)
    loud = samples * np.float32(10 ** ((TARGET_DBFS + gain_db - level) / 20))
    return fade(_limit(loud), rate)


def _shelf(samples: Samples, rate: int, gain_db: float) -> Samples:
    """Zero-phase high shelf, so that timing stays exact."""
    spectrum = np.fft.rfft(samples)
    octaves = np.log2(np.maximum(np.fft.rfftfreq(len(samples), 1 / rate), 1.0) / _SHELF_HZ)
    gain = gain_db / (1 + np.exp(-2 * octaves / _SHELF_OCTAVES))
    shaped = np.fft.irfft(spectrum * 10 ** (gain / 20), len(samples))
    result: Samples = shaped.astype(np.float32)
    return result


def _limit(samples: Samples) -> Samples:
    """Leave samples below the knee alone and bend the rest towards the ceiling."""
    size = np.abs(samples)
    room = _CEILING - _KNEE
    bent = _KNEE + room * np.tanh((size - _KNEE) / room)
    result: Samples = np.where(size > _KNEE, np.sign(samples) * bent, samples).astype(np.float32)
    return result


def fade(samples: Samples, rate: int) -> Samples:
    """Ten milliseconds of raised cosine at both ends."""
    length = min(int(_FADE_S * rate), len(samples) // 2)
    if not length:
        return samples
    ramp = (0.5 - 0.5 * np.cos(np.pi * np.arange(length) / length)).astype(np.float32)
    faded = samples.copy()
    faded[:length] *= ramp
    faded[-length:] *= ramp[::-1]
    return faded


def to_pcm16(samples: Samples) -> bytes:
    """Signed 16-bit little-endian."""
    return np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
