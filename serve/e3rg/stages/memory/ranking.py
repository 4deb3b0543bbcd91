"""What is best among the nearest: emotion affinity for exemplars, no near-duplicates for both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from e3rg.emotions.table import load_table
from e3rg.emotions.types import Emotion
from e3rg.stages.memory.engine import Exemplar

T = TypeVar("T")

AFFINITY_WEIGHT = 0.3
"""Cosine similarity that a fitting emotion is worth. MiniLM hears the topic more than the feeling
(a dog that died is nearest to a dog that came back), by about this much."""

_DUPLICATE = 0.75
_CATEGORY_SHARE = 0.5


def affinity(label: str, emotion: Emotion) -> float:
    """How well an exemplar's label fits a recognised emotion, 0 to 1.

    1 for the likeliest label; half of that at most for another label of the likeliest category.
    """
    labels = emotion.labels or {emotion.label: 1.0}
    categories = emotion.categories or {emotion.category: 1.0}
    own = labels.get(label, 0.0) / (max(labels.values()) or 1.0)
    row = load_table().rows.get(label)  # an operator's own exemplars may use another word
    shared = categories.get(row.hit, 0.0) / (max(categories.values()) or 1.0) if row else 0.0
    return max(own, _CATEGORY_SHARE * shared)


def score(exemplar: Exemplar, emotion: Emotion | None) -> float:
    """Similarity, raised by affinity as far as the emotion is to be trusted."""
    if emotion is None:
        return exemplar.similarity
    # Even a doubtful reading is better than none: it is right more often than the topic alone.
    trust = 0.5 + 0.5 * min(max(emotion.confidence, 0.0), 1.0)
    return exemplar.similarity + AFFINITY_WEIGHT * trust * affinity(exemplar.emotion, emotion)


def distinct(items: Iterable[T], text: Callable[[T], str], limit: int) -> tuple[T, ...]:
    """The first ``limit`` items whose words do not largely repeat those of an earlier one."""
    kept: list[tuple[T, frozenset[str]]] = []
    for item in items:
        if len(kept) == limit:
            break
        words = frozenset(re.findall(r"\w+", text(item).lower()))
        if not any(_overlap(words, other) >= _DUPLICATE for _, other in kept):
            kept.append((item, words))
    return tuple(item for item, _ in kept)


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    union = len(one | other)
    return len(one & other) / union if union else 1.0
