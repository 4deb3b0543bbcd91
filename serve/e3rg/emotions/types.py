"""Emotion as it passes between stages: a speaker's (recognised) and a listener's (expressed)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Category(StrEnum):
    """The 8 avatar emotions of E3RG (arXiv 2508.12854)."""

    NEUTRAL = "neutral"
    HAPPY = "happy"
    SURPRISED = "surprised"
    ANGRY = "angry"
    FEAR = "fear"
    SAD = "sad"
    DISGUSTED = "disgusted"
    CONTEMPT = "contempt"


class Expression(StrEnum):
    """What a listener's face and voice can show: the 8 categories, and concern."""

    NEUTRAL = "neutral"
    HAPPY = "happy"
    SURPRISED = "surprised"
    ANGRY = "angry"
    FEAR = "fear"
    SAD = "sad"
    DISGUSTED = "disgusted"
    CONTEMPT = "contempt"
    CONCERNED = "concerned"


@dataclass(frozen=True, slots=True)
class ModalityScore:
    """One modality's opinion: a distribution over the 8 categories and how far to trust it.

    Attributes:
        categories: category → probability, sums to 1.
        confidence: 0 to 1; the weight that fusion gave it.
    """

    categories: Mapping[Category, float]
    confidence: float


@dataclass(frozen=True, slots=True)
class Emotion:
    """A speaker's emotion in one turn.

    Attributes:
        label: one of the 32 labels of EmpatheticDialogues (see emotions.toml).
        category: one of the 8, by the table's ``hit`` column.
        intensity: 0 (barely felt) to 1.
        confidence: 0 to 1, calibrated probability that ``category`` is right.
        labels: label → probability over the 32.
        categories: category → probability over the 8.
        modalities: what each of ``text``, ``voice`` and ``face`` said by itself.
    """

    label: str
    category: Category
    intensity: float
    confidence: float
    labels: Mapping[str, float] = field(default_factory=dict)
    categories: Mapping[Category, float] = field(default_factory=dict)
    modalities: Mapping[str, ModalityScore] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the listener says something: the expression on face and voice, 0 to 1 strong."""

    expression: Expression
    intensity: float
