"""HIT, E3RG's measure of emotion recognition (arXiv 2508.12854): share right among 8 categories."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from e3rg.emotions.table import load_table
from e3rg.emotions.types import Category
from e3rg.messages import Message


class Recognition(Protocol):
    """What is scored of an answer; ``Emotion`` and ``TextEmotionResult`` both have it."""

    @property
    def label(self) -> str: ...  # noqa: D102
    @property
    def category(self) -> Category: ...  # noqa: D102
    @property
    def confidence(self) -> float: ...  # noqa: D102


class Recognizer(Protocol):
    """Recognises the emotion of a line after a history."""

    def recognize(self, text: str, history: Sequence[Message] = ()) -> Recognition:
        """Recognise one line."""
        ...


@dataclass(frozen=True, slots=True)
class HitReport:
    """Shares are 0 to 1.

    Attributes:
        dialogues: how many were scored.
        hit: share whose category is right.
        accuracy: share whose label, one of 32, is right.
        ece: expected calibration error of the category's confidence, ten equal bins
            (Guo et al., ICML 2017).
        always_happy: HIT of answering happy each time.
        p50_ms, p95_ms: duration of one call.
        by_category: category → (dialogues, HIT within them).
    """

    dialogues: int
    hit: float
    accuracy: float
    ece: float
    always_happy: float
    p50_ms: float
    p95_ms: float
    by_category: dict[Category, tuple[int, float]]


def read_dialogues(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines ``{"speaker_emotion", "turns": [{"role", "text"}]}``; the last is judged."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def measure_hit(recognizer: Recognizer, dialogues: Sequence[dict[str, Any]]) -> HitReport:
    """Score a recogniser.

    Args:
        recognizer: what to score.
        dialogues: as ``read_dialogues`` gives them; the speaker's roles are ``speaker``.

    Raises:
        ValueError: for no dialogues, or an emotion that the table does not know.
    """
    if not dialogues:
        raise ValueError("no dialogues to score")
    table = load_table()
    right, exact, sure, milliseconds = [], [], [], []
    truth: list[Category] = []
    for dialogue in dialogues:
        label = table.resolve(dialogue["speaker_emotion"])
        if label is None:
            raise ValueError(f"unknown emotion {dialogue['speaker_emotion']!r}")
        *history, last = [
            Message("user" if turn["role"] == "speaker" else "assistant", turn["text"])
            for turn in dialogue["turns"]
        ]
        start = time.perf_counter()
        answer = recognizer.recognize(last.content, history)
        milliseconds.append(1e3 * (time.perf_counter() - start))
        truth.append(table.hit(label))
        right.append(answer.category is truth[-1])
        exact.append(answer.label == label)
        sure.append(answer.confidence)
    hits, confidence = np.array(right), np.array(sure)
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return HitReport(
        dialogues=len(dialogues),
        hit=float(hits.mean()),
        accuracy=float(np.mean(exact)),
        ece=calibration_error(confidence, hits),
        always_happy=float(np.mean([each is Category.HAPPY for each in truth])),
        p50_ms=float(p50),
        p95_ms=float(p95),
        by_category={
            each: (truth.count(each), float(hits[[t is each for t in truth]].mean()))
            for each in Category
            if each in truth
        },
    )


def calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = 10) -> float:
    """Mean gap between confidence and share right, over equal bins weighted by their size."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    total = 0.0
    for each in range(bins):
        inside = place == each
        if inside.any():
            total += inside.sum() * abs(confidence[inside].mean() - right[inside].mean())
    return float(total / len(confidence))
