"""Emotion from text: MiniLM vectors compared with what each of the 32 labels sounds like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from e3rg.embedding.engine import TextEmbedder
from e3rg.emotions.table import EmotionTable, load_table
from e3rg.emotions.types import Category
from e3rg.messages import Message


@dataclass(frozen=True, slots=True)
class TextEmotionResult:
    """What the words alone say of the speaker's emotion.

    Attributes:
        label: the likeliest of the 32 labels.
        category: the likeliest of the 8.
        intensity: 0 (barely felt) to 1.
        confidence: 0 to 1, calibrated probability that ``category`` is right; 0 for blank text.
        labels: label → probability, all 32, sums to 1.
        categories: category → probability, all 8, sums to 1.
    """

    label: str
    category: Category
    intensity: float
    confidence: float
    labels: Mapping[str, float]
    categories: Mapping[Category, float]


class TextEmotion:
    """Recognises the speaker's emotion from words; synchronous, safe to call from threads."""

    def __init__(self, embedder: TextEmbedder, table: EmotionTable) -> None:
        self._embedder = embedder
        self._table = table
        self._descriptions = embedder.embed([row.description for row in table.rows.values()])

    @classmethod
    def load(cls, embedder: TextEmbedder) -> Self:
        """Load the head that ships with the package."""
        return cls(embedder, load_table())

    def recognize(self, text: str, history: Sequence[Message] = ()) -> TextEmotionResult:
        """Recognise the emotion of what was said last, in the light of what was said before.

        Args:
            text: what the speaker said.
            history: earlier lines, oldest first; only the speaker's (``user``) are read.
        """
        said = [line.content for line in history if line.role == "user"]
        vector = self._embedder.embed([" ".join([*said, text])])[0]
        scores = np.exp(20 * (self._descriptions @ vector))
        scores /= scores.sum()
        labels = {label: float(p) for label, p in zip(self._table.labels, scores, strict=True)}
        categories = dict.fromkeys(Category, 0.0)
        for label, p in labels.items():
            categories[self._table.hit(label)] += p
        category = max(categories, key=lambda each: categories[each])
        label = max(
            (each for each in labels if self._table.hit(each) is category),
            key=lambda each: labels[each],
        )
        return TextEmotionResult(
            label,
            category,
            self._table.row(label).arousal,
            categories[category],
            labels,
            categories,
        )
