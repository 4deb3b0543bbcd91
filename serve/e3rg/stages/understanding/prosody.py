"""Prosody: what a voice does beside the words, measured with numpy.

Measures follow the Geneva minimalistic set (Eyben et al. 2016, doi:10.1109/TAFFC.2015.2457417)
where it has them; pitch is Boersma's autocorrelation (1993), syllables are de Jong and Wempe's
peaks of intensity (2009).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e3rg.media.types import Pcm

Array = NDArray[np.float32]

MAX_SECONDS = 30.0
_HOP_S = 0.01
_FRAME_S = 0.04
_PAUSE_S = 0.25  # a shorter silence is a consonant
_PITCH_HZ = (65.0, 450.0)
_VOICED = 0.45  # height of the autocorrelation peak; Boersma's voicing threshold
_OCTAVE_COST = 0.02
_OCTAVE_ERROR = 10.0  # semitones from the median; no speaker moves so far within an utterance
_RANGE_DB = 35.0  # frames this far under the loudest are pauses,
_RISE = 0.4  # and those that rise less than this share of the way from the noise to the loudest
_FLOOR_DB = -65.0  # full scale; below it is a muted microphone
_RATE = 8000  # enough for pitch and effort, and half the work
_MIN_VOICED_S = 0.3


@dataclass(frozen=True, slots=True)
class Prosody:
    """Measures of one utterance; none but ``level`` depends on the microphone's gain.

    Attributes:
        voiced_s: seconds with a pitch.
        pitch: median, Hz.
        pitch_range: semitones between the 10th and the 90th percentile.
        jitter: mean change between neighbouring pitch periods, as a share of the period.
        level: mean of voiced frames, dB full scale.
        level_spread: standard deviation of voiced frames, dB.
        effort: power from 1 to 4 kHz over power from 50 Hz to 1 kHz in voiced frames, dB (the
            alpha ratio, upside down: more is a more pressed voice).
        harmonicity: mean harmonics-to-noise ratio, dB.
        rate: syllables in a second of speech, pauses left out.
        pauses: share of the utterance, from first to last sound, that is pause.
    """

    voiced_s: float
    pitch: float
    pitch_range: float
    jitter: float
    level: float
    level_spread: float
    effort: float
    harmonicity: float
    rate: float
    pauses: float


def measure(audio: Pcm) -> Prosody | None:
    """Measure the last MAX_SECONDS of sound, or None where there is no voice in it."""
    signal, rate = _samples(audio)
    frame, hop = int(_FRAME_S * rate), int(_HOP_S * rate)
    if signal.size < 4 * frame:
        return None
    frames = np.lib.stride_tricks.sliding_window_view(signal, frame)[::hop]
    level = 10 * np.log10(np.mean(frames * frames, axis=1) + 1e-10)
    noise, loud = np.percentile(level, [5, 95])
    sounding = level > max(loud - _RANGE_DB, noise + _RISE * (loud - noise), _FLOOR_DB)
    if sounding.sum() * _HOP_S < _MIN_VOICED_S:
        return None
    active = np.flatnonzero(sounding)
    window = np.hanning(frame).astype(np.float32)
    spectrum = _power(frames[active] * window)
    pitch, strength = _pitch(spectrum, window, rate)
    voiced = _steady(pitch, strength, active)
    if voiced.sum() * _HOP_S < _MIN_VOICED_S:
        return None
    bands = _bands(spectrum[voiced], pitch[voiced], rate)
    if bands is None:
        return None
    semitones = 12 * np.log2(pitch[voiced])
    semitones = semitones[np.abs(semitones - np.median(semitones)) < _OCTAVE_ERROR]
    low, middle, high = np.percentile(semitones, [10, 50, 90])
    strengths = np.clip(strength[voiced], 0.01, 0.99)
    span = active[-1] - active[0] + 1
    gaps = np.diff(active)
    paused = int(gaps[gaps > _PAUSE_S / _HOP_S].sum())
    return Prosody(
        voiced_s=float(voiced.sum() * _HOP_S),
        pitch=float(2 ** (middle / 12)),
        pitch_range=float(high - low),
        jitter=_jitter(pitch, voiced, active),
        level=float(level[active][voiced].mean()),
        level_spread=float(level[active][voiced].std()),
        effort=bands,
        harmonicity=float(np.mean(10 * np.log10(strengths / (1 - strengths)))),
        rate=float(_syllables(level, active[voiced]) / ((span - paused) * _HOP_S)),
        pauses=float(paused / span),
    )


def _samples(audio: Pcm) -> tuple[Array, int]:
    """The last MAX_SECONDS at about _RATE, -1 to 1, and their rate in Hz."""
    keep = int(MAX_SECONDS * audio.sample_rate)
    signal = np.frombuffer(audio.data, "<i2", count=audio.samples)[-keep:].astype(np.float32)
    factor = max(1, audio.sample_rate // _RATE)
    if factor > 1 and signal.size > 16 * factor:
        taps = np.sinc(np.arange(-8 * factor, 8 * factor + 1) / factor) * np.hamming(
            16 * factor + 1
        )
        signal = np.convolve(signal, (taps / taps.sum()).astype(np.float32), "same")[::factor]
    if signal.size:
        signal = signal - signal.mean()
    return signal / np.float32(32768.0), audio.sample_rate // factor


def _power(frames: Array) -> Array:
    """Power spectra, zero-padded so that their inverse is the plain autocorrelation."""
    size = 2 * frames.shape[1]
    half = np.fft.rfft(frames, size)
    return np.asarray(half.real**2 + half.imag**2, dtype=np.float32)


def _pitch(spectrum: Array, window: Array, rate: int) -> tuple[Array, Array]:
    """Pitch in Hz and height of the autocorrelation peak of each frame."""
    size = 2 * (spectrum.shape[1] - 1)
    own = np.fft.irfft(np.abs(np.fft.rfft(window, size)) ** 2)
    shortest, longest = int(rate / _PITCH_HZ[1]), int(rate / _PITCH_HZ[0]) + 1
    lags = slice(shortest - 1, longest + 2)
    raw = np.fft.irfft(spectrum)
    scale = raw[:, :1] + 1e-9
    # Divided by the window's own autocorrelation, a perfect period is 1 at any lag (Boersma, 9).
    height = (raw[:, lags] / scale / (own[lags] / own[0])).astype(np.float32)
    octaves = np.log2(np.arange(shortest - 1, longest + 2) / shortest).astype(np.float32)
    best = np.argmax(height[:, 1:-1] - _OCTAVE_COST * octaves[1:-1], axis=1) + 1
    rows = np.arange(len(height))
    left, top, right = height[rows, best - 1], height[rows, best], height[rows, best + 1]
    curve = left - 2 * top + right
    shift = np.where(np.abs(curve) > 1e-6, 0.5 * (left - right) / np.minimum(curve, -1e-6), 0.0)
    lag = best + (shortest - 1) + np.clip(shift, -0.5, 0.5)
    return (rate / lag).astype(np.float32), np.clip(top, 0.0, 1.0)


def _steady(pitch: Array, strength: Array, active: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Frames with a pitch that a neighbour shares; lone ones are noise or octave errors."""
    voiced = strength > _VOICED
    near = np.zeros_like(voiced)
    step = np.abs(np.diff(np.log2(pitch))) < 0.15
    linked = step & (np.diff(active) == 1) & voiced[1:] & voiced[:-1]
    near[1:] |= linked
    near[:-1] |= linked
    return np.asarray(voiced & near)


def _bands(spectrum: Array, pitch: Array, rate: int) -> float | None:
    """Vocal effort in dB, or None where the sound is no voice but a whistle or a machine's tone."""
    hertz = np.fft.rfftfreq(2 * (spectrum.shape[1] - 1), 1 / rate)
    total = spectrum.sum(axis=1) + 1e-12
    above = np.where(hertz > 1.7 * pitch[:, np.newaxis], spectrum, 0.0).sum(axis=1) / total
    if np.median(above) < 0.02 or np.std(12 * np.log2(pitch)) < 0.1:
        return None
    low = spectrum[:, (hertz >= 50) & (hertz < 1000)].sum() + 1e-12
    high = spectrum[:, (hertz >= 1000)].sum() + 1e-12
    return float(10 * np.log10(high / low))


def _jitter(pitch: Array, voiced: NDArray[np.bool_], active: NDArray[np.intp]) -> float:
    pairs = voiced[1:] & voiced[:-1] & (np.diff(active) == 1)
    change = np.abs(np.diff(1 / pitch)) * pitch[1:]
    # A jump is an octave error, not a trembling voice.
    kept = change[pairs & (change < 0.15)]
    return float(kept.mean()) if kept.size else 0.0


def _syllables(level: NDArray[np.floating], voiced: NDArray[np.intp]) -> int:
    """Peaks of intensity that rise 2 dB over the dips at both sides and are voiced."""
    smooth = np.convolve(level, np.ones(5) / 5, mode="same")
    is_voiced = np.zeros(level.size, dtype=bool)
    is_voiced[voiced] = True
    turns = np.flatnonzero(np.diff(np.sign(np.diff(smooth)))) + 1
    count, dip = 0, -np.inf if not turns.size else float(smooth[0])
    peak: int | None = None
    for at in turns:
        value = float(smooth[at])
        if peak is None or value > smooth[peak]:
            if value - dip >= 2:
                peak = int(at)
            dip = min(dip, value)
        elif smooth[peak] - value >= 2:
            count += int(is_voiced[peak])
            peak, dip = None, value
    return count + int(peak is not None and bool(is_voiced[peak]))
