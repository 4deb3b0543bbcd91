"""Head motion, gaze, blinks and breathing: pure functions of (seed, absolute frame)."""

from __future__ import annotations

import math
from dataclasses import dataclass

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Pose:
    """Where the head is at one frame; small values around 0.

    Attributes:
        x, y: translation, as a fraction of the distance between the eyes.
        roll: radians in the picture plane.
        scale: relative size, about 1.
        yaw, pitch: radians out of the picture plane.
        gaze_x, gaze_y: eyeball shift, as a fraction of the eye's width.
        blink: 0 (open) to 1 (closed).
        breath: −1 (out) to 1 (in).
    """

    x: float
    y: float
    roll: float
    scale: float
    yaw: float
    pitch: float
    gaze_x: float
    gaze_y: float
    blink: float
    breath: float


STILL = Pose(0, 0, 0, 1, 0, 0, 0, 0, 0, 0)


def pose(seed: int, frame: int, fps: int) -> Pose:
    """The pose at a frame; the same for every caller, whatever was rendered before.

    Args:
        seed: the turn's seed, any integer.
        frame: absolute frame index in the turn.
        fps: frames a second.
    """
    t = frame / fps
    yaw = 0.055 * _drift(seed, 1, t, 2.9)
    roll = 0.013 * _drift(seed, 3, t, 3.7) + 0.10 * yaw
    gaze_x, gaze_y = _gaze(seed, t)
    return Pose(
        x=0.030 * _drift(seed, 4, t, 3.3) + 0.20 * yaw,
        y=0.022 * _drift(seed, 5, t, 2.7),
        roll=roll,
        scale=1 + 0.008 * _drift(seed, 6, t, 4.9),
        yaw=yaw,
        pitch=0.040 * _drift(seed, 2, t, 2.3),
        gaze_x=gaze_x,
        gaze_y=gaze_y,
        blink=_blink(seed, t),
        breath=math.sin(2 * math.pi * (t / 4.1 + _uniform(seed, 7, 0))),
    )


def _drift(seed: int, channel: int, t: float, period: float) -> float:
    """Value noise, about −1 to 1: random knots one period apart, plus a faster, smaller octave."""
    slow = _noise(seed, channel, t / period)
    return 0.8 * slow + 0.2 * _noise(seed, channel + 100, 2.3 * t / period)


def _noise(seed: int, channel: int, x: float) -> float:
    knot = math.floor(x)
    f = x - knot
    # Quintic easing (Perlin 2002): no jump in speed or acceleration at the knots.
    ease = f * f * f * (f * (f * 6 - 15) + 10)
    a = 2 * _uniform(seed, channel, knot) - 1
    b = 2 * _uniform(seed, channel, knot + 1) - 1
    return a + (b - a) * ease


def _blink(seed: int, t: float) -> float:
    """About one blink in 3.4 s: lids fall in 80 ms, rest shut 40 ms and rise in 160 ms."""
    slot_s = 3.4
    slot = math.floor(t / slot_s)
    closed = 0.0
    for k in (slot - 1, slot):
        start = (k + 0.1 + 0.8 * _uniform(seed, 8, k)) * slot_s
        closed = max(closed, _lids(t - start))
        if _uniform(seed, 9, k) < 0.12:
            closed = max(closed, _lids(t - start - 0.36))
    return closed


def _lids(since: float) -> float:
    if since <= 0 or since >= 0.28:
        return 0.0
    if since < 0.08:
        x = since / 0.08
    elif since < 0.12:
        return 1.0
    else:
        x = (0.28 - since) / 0.16
    return x * x * (3 - 2 * x)


def _gaze(seed: int, t: float) -> tuple[float, float]:
    """Small saccades: the eyes rest about a second, then jump within 60 ms."""
    slot_s = 1.1
    slot = math.floor(t / slot_s)
    start = (slot + 0.6 * _uniform(seed, 10, slot)) * slot_s
    x = min(max((t - start) / 0.06, 0.0), 1.0)
    ease = x * x * (3 - 2 * x)
    values = []
    for channel, reach in ((11, 0.035), (12, 0.018)):
        before = (2 * _uniform(seed, channel, slot - 1) - 1) * reach
        after = (2 * _uniform(seed, channel, slot) - 1) * reach
        values.append(before + (after - before) * ease)
    return values[0], values[1]


def _uniform(seed: int, channel: int, index: int) -> float:
    """0 to 1 from three integers: the SplitMix64 finaliser (Steele et al. 2014)."""
    z = seed * 0x9E3779B97F4A7C15 + channel * 0xD1B54A32D192ED03 + index * 0x8CB92BA72F3D8DD7
    z &= _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return float((z ^ (z >> 31)) >> 11) / float(1 << 53)
