"""Expression and intensity to prosody.

Directions follow the vocal correlates of emotion that Banse and Scherer (1996) and Juslin and
Laukka (2003) report: joy is fast, high, wide and bright; sadness slow, low, narrow, soft and dull;
anger loud and bright; fear fast and high. Sizes are kept small: a listener who overacts is worse
than one who underacts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from e3rg.emotions.types import Delivery, Expression


@dataclass(frozen=True, slots=True)
class Prosody:
    """How to say it, relative to the voice's own way.

    Attributes:
        rate: multiplies the speaking rate.
        pitch: multiplies the pitch.
        pitch_range: multiplies the pitch's deviation from its mean.
        gain_db: added to the loudness.
        brightness_db: gain of the sound above about 2 kHz, vocal effort's spectral side.
    """

    rate: float = 1.0
    pitch: float = 1.0
    pitch_range: float = 1.0
    gain_db: float = 0.0
    brightness_db: float = 0.0


_FULL = {
    Expression.NEUTRAL: Prosody(),
    Expression.HAPPY: Prosody(1.09, 1.12, 1.35, 1.0, 2.0),
    Expression.SURPRISED: Prosody(1.04, 1.16, 1.50, 1.0, 2.0),
    Expression.ANGRY: Prosody(1.07, 1.03, 1.25, 2.0, 3.0),
    Expression.FEAR: Prosody(1.12, 1.10, 0.90, -1.0, 1.0),
    Expression.SAD: Prosody(0.86, 0.92, 0.62, -3.5, -3.0),
    Expression.DISGUSTED: Prosody(0.94, 0.94, 1.10, 0.0, 0.0),
    Expression.CONTEMPT: Prosody(0.94, 0.95, 0.85, -1.0, 0.0),
    Expression.CONCERNED: Prosody(0.91, 0.96, 0.85, -2.5, -2.0),
}


def prosody(delivery: Delivery) -> Prosody:
    """Prosody of a delivery; intensity outside 0 to 1 is clipped, factors scale geometrically."""
    full = _FULL[delivery.expression]
    strength = min(max(delivery.intensity, 0.0), 1.0) if math.isfinite(delivery.intensity) else 0.0
    return Prosody(
        rate=full.rate**strength,
        pitch=full.pitch**strength,
        pitch_range=full.pitch_range**strength,
        gain_db=full.gain_db * strength,
        brightness_db=full.brightness_db * strength,
    )
