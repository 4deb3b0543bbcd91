"""Emotion from the sound of a voice: prosody → arousal and valence → the 8 categories.

Arousal is what prosody tells well: pressed, fast, wide and high speech (Scherer 2003,
doi:10.1016/S0167-6393(02)00084-5). It tells little of valence, so anger, fear and joy stay close
together here, and the confidence is never above MAX_CONFIDENCE: this opinion shifts the balance
between emotions that the words leave open, and does not overrule them.

No labelled speech stands behind the numbers: the norms were measured on 15 synthetic neutral
voices (Kokoro-82M, both genders), the directions and weights are the literature's.
"""

from __future__ import annotations

import math

from e3rg.emotions.types import Category, ModalityScore
from e3rg.media.types import Pcm
from e3rg.stages.understanding.prosody import Prosody, measure

MAX_CONFIDENCE = 0.3

# Measure: (norm, spread between speakers, weight in arousal). Weights add up to 1.
_NORMS = {
    "effort": (-13.6, 3.5, 0.35),
    "rate": (3.4, 0.8, 0.2),
    "pitch_range": (8.0, 2.5, 0.25),
    "level_spread": (6.0, 1.5, -0.05),
}
_PITCH_NORM_HZ, _PITCH_SPREAD, _PITCH_WEIGHT = 150.0, 5.0, 0.15
# Calm voices differ by about as much as one voice does between moods, so the step is small.
_AROUSAL_GAIN = 0.7

# Valence and arousal, -1 to 1, after Russell and Mehrabian (1977,
# doi:10.1016/0092-6566(77)90037-X); the last number is how often a category is met.
_PLACES = {
    Category.NEUTRAL: (0.0, 0.0, 2.0),
    Category.HAPPY: (0.76, 0.48, 1.5),
    Category.SURPRISED: (0.40, 0.67, 1.0),
    Category.ANGRY: (-0.51, 0.59, 1.0),
    Category.FEAR: (-0.64, 0.60, 1.0),
    Category.SAD: (-0.63, -0.27, 1.5),
    Category.DISGUSTED: (-0.60, 0.35, 0.4),
    Category.CONTEMPT: (-0.23, 0.31, 0.3),
}
_VALENCE_BLUR, _AROUSAL_BLUR = 0.8, 0.4


def recognize_voice(audio: Pcm) -> ModalityScore | None:
    """What a voice says of its speaker's emotion.

    Args:
        audio: mono sound; its last 30 s are heard.

    Returns:
        A distribution over the 8 categories with a low confidence, or None when there is no voice.
    """
    prosody = measure(audio)
    return None if prosody is None else score(prosody)


def score(prosody: Prosody) -> ModalityScore:
    """Distribution and confidence from measures."""
    valence, arousal = affect(prosody)
    weights = {
        category: often
        * math.exp(-((valence - v) ** 2) / (2 * _VALENCE_BLUR**2))
        * math.exp(-((arousal - a) ** 2) / (2 * _AROUSAL_BLUR**2))
        for category, (v, a, often) in _PLACES.items()
    }
    total = sum(weights.values())
    # A moment of voice, or a hoarse one, tells less; so does a voice that sounds like any other.
    heard = min(1.0, prosody.voiced_s / 1.5) * min(1.0, max(0.0, prosody.harmonicity) / 6.0)
    confidence = MAX_CONFIDENCE * heard * (0.3 + 0.7 * abs(arousal))
    return ModalityScore({name: w / total for name, w in weights.items()}, confidence)


def affect(prosody: Prosody) -> tuple[float, float]:
    """Valence and arousal, each from -1 to 1."""
    z = {
        name: _clip((getattr(prosody, name) - norm) / spread)
        for name, (norm, spread, _) in _NORMS.items()
    }
    pitch = _clip(12 * math.log2(prosody.pitch / _PITCH_NORM_HZ) / _PITCH_SPREAD)
    strain = _PITCH_WEIGHT * pitch + sum(z[name] * weight for name, (*_, weight) in _NORMS.items())
    arousal = math.tanh(_AROUSAL_GAIN * strain)
    # Joy is melodious and light, anger pressed; a slack, flat voice is rather a sad one.
    valence = 0.3 * math.tanh(0.5 * (z["pitch_range"] - z["effort"])) + 0.2 * min(0.0, arousal)
    return valence, arousal


def _clip(z: float) -> float:
    return max(-3.0, min(3.0, z))
