"""English pronunciation lexicon in Kokoro's phoneme alphabet, with the regular endings.

The word lists are misaki's (Apache-2.0): a hand-checked one ("gold") and a derived one ("silver"),
for American and for British English. An entry is a phoneme string, or several by part of speech.
Kokoro's alphabet is IPA with one letter for each diphthong (A eɪ, I aɪ, O oʊ, Q əʊ, W aʊ, Y ɔɪ)
and affricate (ʧ, ʤ), T for the American flap, and stress marks before the vowel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

Entry = str | dict[str, str | None]

PRIMARY, SECONDARY = "ˈ", "ˌ"
VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻᵊ")
_FLAPS_AFTER = frozenset("AIOWYiuæɑəɛɪɹʊʌ")
_DOUBLED = "bdgklmnprtvz"


class Lexicon:
    """Looks words up.

    Args:
        gold: word → entry, checked by hand.
        silver: word → entry, for words that gold lacks.
        british: British rather than American endings.
    """

    def __init__(
        self, gold: Mapping[str, Entry], silver: Mapping[str, Entry], *, british: bool
    ) -> None:
        self._gold = gold
        self._silver = silver
        self.british = british

    @classmethod
    def read(cls, gold: Path, silver: Path, *, british: bool) -> Lexicon:
        """Load two JSON word lists."""
        lists = [json.loads(path.read_text(encoding="utf-8")) for path in (gold, silver)]
        return cls(lists[0], lists[1], british=british)

    def entry(self, word: str, *, checked: bool = False) -> Entry | None:
        """The entry of a word as written, capitalised or in lower case; None if there is none."""
        lists = (self._gold,) if checked else (self._gold, self._silver)
        for words in lists:
            for form in (word, word.lower(), word.capitalize()):
                found = words.get(form)
                if found:
                    return found
        return None

    def letter(self, letter: str) -> str:
        """The name of a letter."""
        name = self._gold.get(letter.upper())
        return name if isinstance(name, str) else ""

    def pronounce(self, word: str, part: str | None = None, *, last: bool = False) -> str | None:
        """Phonemes of a word or of its stem with a regular ending.

        Args:
            word: letters and apostrophes.
            part: ``NOUN``, ``VERB``, ``ADJ``, ``VBD`` …, where it decides between entries.
            last: the word stands before a pause, where function words keep their full vowel.
        """
        found = self.entry(word)
        if found is not None:
            return _choose(found, part, last)
        for stem, add in self._stems(word):
            found = self.entry(stem)
            if found is not None:
                phonemes = _choose(found, part, last)
                return getattr(self, add)(phonemes) if phonemes else None
        return None

    def _stems(self, word: str) -> Iterator[tuple[str, str]]:
        low = word.lower()
        if low.endswith("s'") or low.endswith("'"):
            yield word[:-1], "_same"
        if low.endswith("'s"):
            yield word[:-2], "_s"
        elif low.endswith("s") and not low.endswith("ss") and len(low) > 3:
            yield word[:-1], "_s"
            if low.endswith("ies"):
                yield word[:-3] + "y", "_s"
            elif low.endswith("es"):
                yield word[:-2], "_s"
        elif low.endswith("ed") and len(low) > 4:
            yield from ((stem, "_ed") for stem in _bases(word[:-2]))
            if low.endswith("ied"):
                yield word[:-3] + "y", "_ed"
        elif low.endswith("ing") and len(low) > 5:
            yield from ((stem, "_ing") for stem in _bases(word[:-3]))
        elif low.endswith("in'"):
            yield word[:-1] + "g", "_same"
        elif low.endswith("ly") and len(low) > 5:
            yield word[:-2], "_ly"
        elif low.endswith("ness") and len(low) > 6:
            yield word[:-4], "_ness"
            if low.endswith("iness"):
                yield word[:-5] + "y", "_ness"

    def _same(self, stem: str) -> str:
        return stem

    def _s(self, stem: str) -> str:
        if stem[-1] in "ptkfθ":
            return stem + "s"
        if stem[-1] in "szʃʒʧʤ":
            return stem + ("ɪz" if self.british else "ᵻz")
        return stem + "z"

    def _ed(self, stem: str) -> str:
        if stem[-1] in "pkfθʃsʧ":
            return stem + "t"
        if stem[-1] == "t" and not self.british and stem[-2:-1] and stem[-2] in _FLAPS_AFTER:
            return stem[:-1] + "ɾᵻd"
        if stem[-1] in "td":
            return stem + ("ɪd" if self.british else "ᵻd")
        return stem + "d"

    def _ing(self, stem: str) -> str:
        if stem[-1] == "t" and not self.british and stem[-2:-1] and stem[-2] in _FLAPS_AFTER:
            return stem[:-1] + "ɾɪŋ"
        # A British final r is silent until a vowel follows.
        return stem + ("ɹɪŋ" if self.british and stem[-1] in "əː" else "ɪŋ")

    def _ly(self, stem: str) -> str:
        return stem + ("i" if stem[-1] == "l" else "li")

    def _ness(self, stem: str) -> str:
        return stem + "nəs"


def _bases(stem: str) -> Iterator[str]:
    yield stem
    yield stem + "e"
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1].lower() in _DOUBLED:
        yield stem[:-1]


def _choose(entry: Entry, part: str | None, last: bool) -> str | None:
    if isinstance(entry, str):
        return entry
    if last and entry.get("None"):
        return entry["None"]
    general = {"VBD": "VERB", "VBN": "VERB", "VBP": "VERB"}.get(part or "")
    for key in (part, general, "DEFAULT"):
        if key and entry.get(key):
            return entry[key]
    return None


def set_stress(phonemes: str, mark: str) -> str:
    """Give a word without primary stress the given mark on its strongest or first vowel."""
    if PRIMARY in phonemes:
        return phonemes
    if SECONDARY in phonemes:
        return phonemes.replace(SECONDARY, mark, 1)
    at = next((i for i, char in enumerate(phonemes) if char in VOWELS), None)
    return phonemes if at is None else phonemes[:at] + mark + phonemes[at:]


def weaken(phonemes: str) -> str:
    """Primary stress to secondary, for the lesser part of a compound."""
    return phonemes.replace(SECONDARY, "").replace(PRIMARY, SECONDARY)
