"""Normalised English to Kokoro's phonemes: lexicon, function words, heteronyms, unknown words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from e3rg.stages.speech.letters import LetterNetwork
from e3rg.stages.speech.lexicon import (
    PRIMARY,
    SECONDARY,
    VOWELS,
    Lexicon,
    set_stress,
    weaken,
)

PAUSES = frozenset(",.!?;:—…")
_TOKEN = re.compile(r"[A-Za-z'·]+(?:-[A-Za-z'·]+)*|[,.!?;:—…]")
_MAX_SPELLED = 5  # an unknown word in capitals up to here is an acronym

_DETERMINERS = frozenset(
    [
        "a",
        "an",
        "the",
        "this",
        "that",
        "these",
        "those",
        "my",
        "your",
        "his",
        "her",
        "its",
        "our",
        "their",
        "some",
        "any",
        "no",
        "every",
        "each",
        "another",
        "much",
        "many",
        "more",
        "most",
        "such",
        "what",
        "which",
        "whose",
        "one",
        "two",
        "three",
    ]
)
_PREPOSITIONS = frozenset(
    [
        "of",
        "in",
        "on",
        "at",
        "by",
        "for",
        "with",
        "from",
        "about",
        "into",
        "without",
        "under",
        "over",
    ]
)
_BEFORE_VERB = frozenset(
    [
        "to",
        "i",
        "you",
        "we",
        "they",
        "he",
        "she",
        "it",
        "will",
        "would",
        "can",
        "could",
        "shall",
        "should",
        "may",
        "might",
        "must",
        "do",
        "does",
        "did",
        "don't",
        "doesn't",
        "didn't",
        "won't",
        "can't",
        "couldn't",
        "wouldn't",
        "shouldn't",
        "not",
        "never",
        "always",
        "let's",
        "please",
        "who",
        "i'll",
        "you'll",
        "we'll",
        "they'll",
        "he'll",
        "she'll",
        "i'd",
        "you'd",
        "we'd",
        "they'd",
        "people",
    ]
)
_BEFORE_PARTICIPLE = frozenset(
    [
        "have",
        "has",
        "had",
        "i've",
        "you've",
        "we've",
        "they've",
        "was",
        "were",
        "been",
        "being",
        "is",
        "are",
        "already",
        "be",
        "having",
    ]
)
_OBJECTS = _DETERMINERS | frozenset(["me", "you", "him", "her", "it", "us", "them"])
_COPULAS = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "very",
        "so",
        "too",
        "quite",
        "really",
        "it's",
        "that's",
    ]
)
_PAST = re.compile(r"\b(?:yesterday|ago|last|earlier|once|then|when)\b", re.I)


@dataclass(frozen=True, slots=True)
class Pronouncer:
    """Turns normalised text into phonemes.

    Attributes:
        lexicon: words with known pronunciations.
        letters: the guess for all others.
    """

    lexicon: Lexicon
    letters: LetterNetwork

    def __call__(self, text: str) -> str:
        """Phonemes of ``normalize``'s text, words separated by spaces, pauses kept as they are."""
        tokens = _TOKEN.findall(text)
        said: list[str] = []
        following = ""  # phonemes right of the word: "the apple", "to a", and pauses
        for i in range(len(tokens) - 1, -1, -1):
            token = tokens[i]
            phonemes = token if token in PAUSES else self._token(tokens, i, following, text)
            if phonemes:
                said.append(phonemes)
                following = phonemes
        said.reverse()
        joined = " ".join(said)
        joined = re.sub(r" ([,.!?;:…])", r"\1", joined)
        # Kokoro 1.0 writes the flap as T, and has no glottal stop.
        return joined.replace("ɾ", "T").replace("ʔ", "t")

    def _token(self, tokens: list[str], i: int, following: str, text: str) -> str:
        before = tokens[i - 1].lower() if i else ""
        after = tokens[i + 1].lower() if i + 1 < len(tokens) else ""
        token = tokens[i]
        last = not following or following[0] in PAUSES
        if "-" in token and self.lexicon.entry(token) is None:
            parts = [self._word(part, None, False) for part in token.split("-") if part]
            parts = [part for part in parts if part]
            return "".join([*(weaken(part) for part in parts[:-1]), *parts[-1:]])
        weak = _function_word(token, before, after, following, last)
        if weak is not None:
            return weak if not self.lexicon.british else weak.replace("O", "Q")
        return self._word(token, _part_of_speech(token, before, after, text), last)

    def _word(self, word: str, part: str | None, last: bool) -> str:
        if "·" in word:
            return self._spelled(word)
        phonemes = self.lexicon.pronounce(word, part, last=last)
        shouted = len(word) > 1 and word.isupper()
        if phonemes:
            return set_stress(phonemes, PRIMARY) if shouted else phonemes
        if re.fullmatch(r"[A-Z]{2,}'?s", word) and len(word) <= _MAX_SPELLED + 1:
            stem = re.sub("'?s$", "", word)
            return self._spelled("·".join(stem)) + "z"
        if shouted and len(word) <= _MAX_SPELLED:
            return self._spelled("·".join(word))
        return self._unknown(word)

    def _spelled(self, word: str) -> str:
        """Letter names in one word, the last one stressed: ``U·S·A``, ``T·Vs``."""
        plural = len(word) > 2 and word[-1] == "s" and word[-2] not in "·'"
        plural = plural or word.endswith("'s")
        letters = re.sub(r"'?s$", "", word) if plural else word
        names = [self.lexicon.letter(letter) for letter in letters if letter.isalpha()]
        said = "".join([*(weaken(name) for name in names[:-1]), *names[-1:]])
        if not plural:
            return said
        return said + ("s" if said[-1:] in "ptkfθ" else "z")

    def _unknown(self, word: str) -> str:
        # Drawn-out words: "soooo" is "so", "hmmmm" is "hmm".
        if re.search(r"(.)\1\1", word):
            for keep in (r"\1\1", r"\1"):
                shorter = re.sub(r"(.)\1{2,}", keep, word)
                known = self.lexicon.pronounce(shorter)
                if known:
                    return known
            word = re.sub(r"(.)\1{2,}", r"\1\1", word)
        if len(word) >= 7:
            for cut in range(len(word) - 3, 2, -1):
                halves = word[:cut], word[cut:]
                if all(self.lexicon.entry(half, checked=True) for half in halves):
                    first, second = (self.lexicon.pronounce(half) or "" for half in halves)
                    return set_stress(first, PRIMARY) + weaken(second)
        guess = self.letters.pronounce(word, british=self.lexicon.british)
        return set_stress(guess, PRIMARY)


def _function_word(token: str, before: str, after: str, following: str, last: bool) -> str | None:
    """Little words whose sound depends on what comes next; None for all others."""
    word = token.lower()
    start = following.lstrip(PRIMARY + SECONDARY)[:1]
    vowel = start in VOWELS
    if token == "I":
        return f"{PRIMARY if last else SECONDARY}I"
    if word == "a":
        return "ɐ"
    if word == "an":
        return "ɐn"
    if word == "the":
        return "ði" if vowel else "ðə"
    if word == "to" and not last:
        return "tʊ" if vowel else "tə"
    if word == "in" and last:
        return f"{PRIMARY}ɪn"
    if word == "used" and after == "to" and before not in ("is", "was", "be", "are"):
        return f"j{PRIMARY}ust"
    if word == "that" and last:
        return f"ð{PRIMARY}æt"
    return None


def _part_of_speech(token: str, before: str, after: str, text: str) -> str | None:
    """A guess from the neighbours, good enough for words that are said in two ways."""
    word = token.lower()
    if word == "read":
        if before in _BEFORE_PARTICIPLE:
            return "VBN"
        return "VBD" if before not in ("to", "will", "can", "did") and _PAST.search(text) else None
    if word == "live":
        adjective = before in _DETERMINERS or before in ("is", "are", "went", "go", "going")
        return None if adjective else "VERB"
    if before in _BEFORE_VERB and not (word == "close" and after == "to"):
        return "VERB"
    if before in _DETERMINERS or before in _PREPOSITIONS:
        return "NOUN" if after not in _OBJECTS or word not in ("close",) else "VERB"
    if after in _OBJECTS and before not in _COPULAS:
        return "VERB"
    return "ADJ" if before in _COPULAS else None
