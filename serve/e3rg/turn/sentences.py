"""Cuts a stream of text into speakable pieces as soon as each is complete.

The first piece may end at a clause, since somebody waits for the first sound; later pieces are
whole sentences, which sound better. Nothing is lost but white space between the pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ABBREVIATIONS = re.compile(
    r"(mr|mrs|ms|dr|prof|sr|jr|st|vs|etc|approx|vol|fig|inc|ltd|co"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|mon|tue|wed|thu|fri"
    r"|e\.g|i\.e|a\.m|p\.m|u\.s|u\.k|[A-HJ-Z])",
    re.IGNORECASE,
)
_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+|\n+")
_CLAUSE = re.compile(r"[,;:—–](?=\s)|[，；：、]")
# Where a speaker could take a breath although nothing is written there.
_BREATH = re.compile(r"\s(?=(?:and|but|because|when|while|especially|although)\s)")
_BREATH_CHARS = 24
_LAST_WORD = re.compile(r"([\w.]+)$")


class SentenceSplitter:
    """Feeds on text deltas and gives pieces.

    Args:
        first_clause_chars: the first piece may end at a clause once it is this long; 0 never.
        max_chars: a piece never grows beyond this; it is cut at a clause or a space.
    """

    def __init__(self, first_clause_chars: int = 12, max_chars: int = 240) -> None:
        self._buffer = ""
        self._first_clause_chars = first_clause_chars
        self._max_chars = max_chars
        self._first = True

    def feed(self, delta: str) -> list[str]:
        """Add text; returns the pieces that it completed."""
        return [piece for piece in self.cut(delta) if piece.strip()]

    def cut(self, delta: str) -> Iterator[str]:
        """As ``feed``, with the blank pieces: joined they are the text."""
        self._buffer += delta
        while (end := self._boundary()) is not None:
            yield self._take(end)

    def finish(self) -> list[str]:
        """The text is over; returns what was left."""
        pieces = []
        while self._buffer:
            end = self._boundary()
            pieces.append(self._take(len(self._buffer) if end is None else end))
        return [piece for piece in pieces if piece.strip()]

    def _take(self, end: int) -> str:
        piece, self._buffer = self._buffer[:end], self._buffer[end:]
        if piece.strip():
            self._first = False
        return piece

    def _boundary(self) -> int | None:
        for match in _END.finditer(self._buffer):
            if not _is_abbreviation(self._buffer[: match.start()], match.group()):
                return self._within(match.end())
        if self._first and self._first_clause_chars:
            for match in _CLAUSE.finditer(self._buffer):
                if len(self._buffer[: match.start()].strip()) >= self._first_clause_chars:
                    return self._within(match.end())
            for match in _BREATH.finditer(self._buffer, _BREATH_CHARS):
                return self._within(match.end())
        return self._within(None)

    def _within(self, end: int | None) -> int | None:
        if len(self._buffer) <= self._max_chars or (end is not None and end <= self._max_chars):
            return end
        head = self._buffer[: self._max_chars]
        clauses = [match.end() for match in _CLAUSE.finditer(head)]
        if clauses and clauses[-1] > self._max_chars // 3:
            return clauses[-1]
        space = head.rfind(" ")
        return space + 1 if space > 0 else self._max_chars


class SentenceLimit:
    """Ends a stream of text after a number of sentences.

    Args:
        sentences: how many are kept.
    """

    def __init__(self, sentences: int) -> None:
        self._splitter = SentenceSplitter(first_clause_chars=0)
        self._left = sentences
        self._open = 0  # characters fed that belong to no piece yet

    def feed(self, delta: str) -> tuple[str, bool]:
        """Add text; returns what of it is kept, and whether the last sentence is complete."""
        self._open += len(delta)
        for piece in self._splitter.cut(delta):
            self._open -= len(piece)
            self._left -= 1 if piece.strip() else 0
            if self._left == 0:
                return delta[: max(len(delta) - self._open, 0)], True
        return delta, False


def _is_abbreviation(before: str, mark: str) -> bool:
    if mark != ".":
        return False
    word = _LAST_WORD.search(before)
    if word is None:
        return False
    return _ABBREVIATIONS.fullmatch(word.group(1)) is not None
