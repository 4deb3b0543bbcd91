"""The emotion table (emotions.toml) and the listener's policy that reads it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType

from e3rg.emotions.types import Category, Delivery, Emotion, Expression

TABLE = Path(__file__).with_name("emotions.toml")

_DOUBTFUL = 0.25
"""Below this confidence a reading does not change an expression that is already there."""


class ListenerPolicy(StrEnum):
    """Whose emotion the listener shows."""

    EMPATHISE = "empathise"
    """The listener's own answer to the speaker's emotion: an angry speaker meets concern."""
    MIRROR = "mirror"
    """The speaker's emotion, by the ``avatar`` column, as E3RG (arXiv 2508.12854) does."""


@dataclass(frozen=True, slots=True)
class EmotionRow:
    """One label; the fields are the columns that emotions.toml explains."""

    label: str
    description: str
    synonyms: tuple[str, ...]
    hit: Category
    avatar: Category
    listener: Expression
    warmth: float
    valence: float
    arousal: float


@dataclass(frozen=True, slots=True)
class EmotionTable:
    """The 32 labels and what each is mapped to; immutable.

    Attributes:
        version: of the file; changes whenever a mapping does.
        rows: label → row, in the file's order.
        words: label or synonym → label.
    """

    version: int
    rows: Mapping[str, EmotionRow]
    words: Mapping[str, str]

    @property
    def labels(self) -> tuple[str, ...]:
        """The 32 labels, in alphabetical order (which is the file's)."""
        return tuple(self.rows)

    def row(self, label: str) -> EmotionRow:
        """All columns of one of the 32 labels.

        Raises:
            KeyError: for any other word; ``resolve`` open words first.
        """
        return self.rows[label]

    def hit(self, label: str) -> Category:
        """The category that E3RG's HIT metric counts a label as."""
        return self.rows[label].hit

    def avatar(self, label: str) -> Category:
        """The category that E3RG's renderer shows for a label."""
        return self.rows[label].avatar

    def resolve(self, word: str) -> str | None:
        """Find the label that a word names: itself, or the label that it is a synonym of.

        The whole word must match (any case, outer blanks and full stops ignored): "unhappy" is
        not "happy", and a sentence names nothing.
        """
        return self.words.get(" ".join(word.casefold().strip(" \t\r\n.!,;:\"'").split()))


@cache
def load_table() -> EmotionTable:
    """Read the shipped table once.

    Raises:
        ValueError: if the file is not consistent.
    """
    return parse_table(TABLE.read_text(encoding="utf-8"))


def parse_table(text: str) -> EmotionTable:
    """Read a table from TOML.

    Raises:
        ValueError: for a label or synonym that is there twice, or a number out of its range.
    """
    raw = tomllib.loads(text)
    rows: dict[str, EmotionRow] = {}
    words: dict[str, str] = {}
    for entry in raw["emotion"]:
        row = EmotionRow(
            label=entry["label"],
            description=entry["description"],
            synonyms=tuple(entry["synonyms"]),
            hit=Category(entry["hit"]),
            avatar=Category(entry["avatar"]),
            listener=Expression(entry["listener"]),
            warmth=float(entry["warmth"]),
            valence=float(entry["valence"]),
            arousal=float(entry["arousal"]),
        )
        if not (0 <= row.warmth <= 1 and -1 <= row.valence <= 1 and 0 <= row.arousal <= 1):
            raise ValueError(f"emotion table: {row.label}: warmth, valence or arousal out of range")
        rows[row.label] = row
        for word in (row.label, *row.synonyms):
            if word in words:
                raise ValueError(f"emotion table: {word!r} is in {words[word]} and in {row.label}")
            words[word] = row.label
    return EmotionTable(int(raw["version"]), MappingProxyType(rows), MappingProxyType(words))


_CONCERN = frozenset(
    {Category.ANGRY, Category.FEAR, Category.SAD, Category.DISGUSTED, Category.CONTEMPT}
)


def listener_delivery(
    emotion: Emotion, policy: ListenerPolicy, previous: Delivery | None = None
) -> Delivery:
    """How a listener says the answer to a speaker's emotion.

    The intensity follows the speaker's, less where the reading is doubtful.

    Args:
        emotion: the speaker's.
        policy: whose emotion to show.
        previous: the listener's delivery in the turn before. A doubtful reading keeps its
            expression and lets it fade, so that the face does not flicker from turn to turn.
    """
    trust = 0.5 + 0.5 * emotion.confidence
    if previous is not None and emotion.confidence < _DOUBTFUL:
        return Delivery(previous.expression, previous.intensity * trust)
    row = load_table().rows.get(emotion.label)
    # Voice or face may have moved the category away from the label's own.
    if row is not None and row.hit is not emotion.category:
        row = None
    if policy is ListenerPolicy.MIRROR:
        shown = row.avatar if row is not None else emotion.category
        return Delivery(Expression(shown.value), _unit(emotion.intensity * trust))
    if row is not None:
        return Delivery(row.listener, _unit(emotion.intensity * row.warmth * trust))
    if emotion.category in _CONCERN:
        return Delivery(Expression.CONCERNED, _unit(emotion.intensity * 0.8 * trust))
    gain = 0.5 if emotion.category is Category.SURPRISED else 0.8
    return Delivery(Expression(emotion.category.value), _unit(emotion.intensity * gain * trust))


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))
