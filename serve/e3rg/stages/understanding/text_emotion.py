"""Emotion from text: a linear head over MiniLM vectors.

The head (text_emotion.npz) is trained by scripts/train_emotion_head.py on GoEmotions (Demszky et
al., ACL 2020) and on situations written for this project. It gives the 32 labels of
EmpatheticDialogues and ``neutral``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from e3rg.embedding.engine import TextEmbedder
from e3rg.emotions.table import EmotionTable, load_table
from e3rg.emotions.types import Category
from e3rg.messages import Message

HEAD = Path(__file__).with_name("text_emotion.npz")

_TURNS = 3
"""Speaker's turns that are read, the present one included: a mood is older than its last line,
and younger than the conversation."""
_JOINED, _OPENING, _PRESENT = 1.0, 0.5, 0.2
"""Weights of the three views of a dialogue. The line that opens a topic tells most of what
happened; answers to questions ("Yes, he is fine now") tell little."""
_TAIL = 480
"""Characters that fit the embedder's window; of a longer text the end is kept."""

_CALM = "content"

_BOOSTERS = re.compile(
    r"\b(very|so|really|extremely|absolutely|completely|totally|incredibly|terribly|awfully|"
    r"utterly|deeply|truly|beyond|too|never been (?:so|this|more)|can(?:no|')t stop|"
    r"the (?:most|worst|best|happiest|saddest)|worst|ever)\b"
)
_HEDGES = re.compile(
    r"\b(a (?:bit|little)|a little bit|slightly|somewhat|kind of|kinda|sort of|sorta|fairly|"
    r"not (?:very|too|so|that|really)|mildly|i guess)\b"
)
_SHOUT = re.compile(r"\b[A-Z]{4,}\b")


@dataclass(frozen=True, slots=True)
class TextEmotionResult:
    """What the words alone say of the speaker's emotion.

    Attributes:
        label: the likeliest of the 32 labels within ``category``; ``content``, the calmest, where
            it is neutral, since no label is mapped to that.
        category: the likeliest of the 8; ``neutral`` where the words tell of no emotion.
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


@dataclass(frozen=True, slots=True)
class EmotionHead:
    """A linear classifier.

    Attributes:
        weight: (dimension of the embedder, 33).
        bias: (33,).
        temperature: the logits are divided by it.
        classes: the 32 labels in the table's order, then ``neutral``.
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    temperature: float
    classes: tuple[str, ...]

    @classmethod
    def read(cls, path: Path = HEAD) -> Self:
        """Read a head as the training script writes it."""
        with np.load(path, allow_pickle=False) as file:
            return cls(
                file["weight"],
                file["bias"],
                float(file["temperature"]),
                tuple(str(name) for name in file["classes"]),
            )

    def log_probabilities(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Classify vectors of shape (n, dimension) into log probabilities (n, 33)."""
        logits = (vectors @ self.weight + self.bias) / np.float32(self.temperature)
        logits -= logits.max(axis=1, keepdims=True)
        log_p: NDArray[np.float32] = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return log_p


class TextEmotion:
    """Recognises the speaker's emotion from words; synchronous, safe to call from threads.

    Raises:
        ValueError: if the head was not made for this embedder or this table.
    """

    def __init__(self, embedder: TextEmbedder, table: EmotionTable, head: EmotionHead) -> None:
        if head.classes != (*table.labels, Category.NEUTRAL.value):
            raise ValueError("text emotion: the head's classes are not the table's labels")
        if head.weight.shape != (embedder.dimension, len(head.classes)):
            raise ValueError(
                f"text emotion: the head takes vectors of {head.weight.shape[0]} numbers, "
                f"the embedder makes {embedder.dimension}"
            )
        self._embedder = embedder
        self._table = table
        self._head = head
        self._arousal = np.array([row.arousal for row in table.rows.values()])
        self._members = {
            category: [n for n, label in enumerate(table.labels) if table.hit(label) is category]
            for category in Category
        }

    @classmethod
    def load(cls, embedder: TextEmbedder) -> Self:
        """Load the head that ships with the package; it is made for MiniLM."""
        return cls(embedder, load_table(), EmotionHead.read())

    def recognize(self, text: str, history: Sequence[Message] = ()) -> TextEmotionResult:
        """Recognise the emotion of what was said last, in the light of what was said before.

        Args:
            text: what the speaker said.
            history: earlier lines, oldest first; only the speaker's (``user``) are read.
        """
        text = _spell(text)
        if not any(letter.isalnum() for letter in text):
            return self._nothing()
        before = [_spell(m.content) for m in history if m.role == "user" and m.content.strip()]
        turns = [*before[1 - _TURNS :], text]
        views = {_tail(" ".join(turns)): _JOINED}
        for view, weight in ((turns[0], _OPENING), (_tail(text), _PRESENT)):
            views[view] = views.get(view, 0.0) + weight
        log_p = self._head.log_probabilities(self._embedder.embed(list(views)))
        # A product of experts: views that agree stay as sure as one of them is.
        mean = np.average(log_p, axis=0, weights=list(views.values()))
        p = np.exp(mean - mean.max())
        p /= p.sum()
        return self._felt(p[:-1], float(p[-1]), text)

    def _felt(self, p: NDArray[np.floating], neutral: float, text: str) -> TextEmotionResult:
        categories = {
            category: float(p[members].sum()) for category, members in self._members.items()
        }
        categories[Category.NEUTRAL] += neutral
        category = max(categories, key=lambda each: categories[each])
        members = self._members[category]
        labels = p / p.sum()
        arousal = float(labels @ self._arousal) * (1 - categories[Category.NEUTRAL])
        return TextEmotionResult(
            self._table.labels[max(members, key=lambda n: p[n])] if members else _CALM,
            category,
            _intensity(arousal, text),
            categories[category],
            {label: float(x) for label, x in zip(self._table.labels, labels, strict=True)},
            categories,
        )

    def _nothing(self) -> TextEmotionResult:
        labels = dict.fromkeys(self._table.labels, 1 / len(self._table.labels))
        categories = {each: float(each is Category.NEUTRAL) for each in Category}
        return TextEmotionResult(_CALM, Category.NEUTRAL, 0.0, 0.0, labels, categories)


def _intensity(arousal: float, text: str) -> float:
    """How strongly it is felt: what the emotion is like, and how it is worded."""
    words = text.casefold().replace("’", "'")
    hedges = len(_HEDGES.findall(words))
    # "not so", "a little too" are hedges, not boosters.
    boosters = len(_BOOSTERS.findall(_HEDGES.sub(" ", words)))
    value = arousal + 0.1 * min(boosters, 3) - 0.15 * min(hedges, 2)
    value += 0.1 * min(text.count("!"), 2) + (0.1 if _SHOUT.search(text) else 0.0)
    return min(1.0, max(0.05, value))


def _tail(text: str) -> str:
    if len(text) <= _TAIL:
        return text
    end = text[-_TAIL:]
    return end.partition(" ")[2] or end


def _spell(text: str) -> str:
    """Emoji as words ("crying face"): the embedder knows the words only."""
    if text.isascii():
        return text
    return "".join(
        f" {unicodedata.name(sign, '').casefold()} " if unicodedata.category(sign) == "So" else sign
        for sign in text
    )
