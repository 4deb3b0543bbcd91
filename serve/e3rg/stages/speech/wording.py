"""Abbreviations, addresses and letter words, said as people say them."""

from __future__ import annotations

import re
from collections.abc import Callable

from e3rg.stages.speech.numerals import cardinal, spell_digits

# Written form (a regular expression) → spoken form. A full stop that may also end the sentence is
# kept when a capital or nothing follows.
_ABBREVIATIONS = (
    (r"Dr\.?(?=\s+[A-Z])", "Doctor"),
    (r"Mr\.?(?=\s)", "Mister"),
    (r"Mrs\.?(?=\s)", "Missus"),
    (r"Ms\.?(?=\s+[A-Z])", "Miz"),
    (r"Prof\.(?=\s)", "Professor"),
    (r"St\.(?=\s+[A-Z])", "Saint"),
    (r"Sgt\.", "Sergeant"),
    (r"Capt\.", "Captain"),
    (r"Lt\.", "Lieutenant"),
    (r"Gen\.(?=\s+[A-Z])", "General"),
    (r"Rev\.(?=\s+[A-Z])", "Reverend"),
    (r"Jr\.?", "Junior"),
    (r"Sr\.(?=\s|$)", "Senior"),
    (r"Mt\.(?=\s+[A-Z])", "Mount"),
    (r"Ave\.", "Avenue"),
    (r"Blvd\.", "Boulevard"),
    (r"Rd\.", "Road"),
    (r"(?<=[a-z] )St\.", "Street"),
    (r"Inc\.", "Incorporated"),
    (r"Ltd\.", "Limited"),
    (r"Corp\.", "Corporation"),
    (r"Dept\.", "Department"),
    (r"[Ee]\.g\.,?", "for example,"),
    (r"[Ii]\.e\.,?", "that is,"),
    (r"[Ee]tc\.", "et cetera"),
    (r"[Vv]s\.?", "versus"),
    (r"[Aa]pprox\.", "approximately"),
    (r"Nos?\.(?=\s*\d)", "number"),
    (r"[Ff]ig\.(?=\s*\d)", "figure"),
    (r"pp?\.(?=\s*\d)", "page"),
    (r"[Cc]h\.(?=\s*\d)", "chapter"),
    (r"w/o(?=\s)", "without"),
    (r"w/(?=\s)", "with"),
    (r"Ph\.?D\.?", "P·H·D"),
    (r"a\.k\.a\.", "A·K·A"),
    (r"AT&T", "A·T and T·"),
    (r"24/7", "twenty-four seven"),
    (r"9/11", "nine eleven"),
)
_ENDS_SENTENCE = re.compile(r"\s*$|\s+[A-Z\"]")
# Titles come before a name, so their full stop never ends a sentence.
_KEEPS_STOP = frozenset(
    [
        "Junior",
        "Senior",
        "Avenue",
        "Boulevard",
        "Road",
        "Street",
        "Incorporated",
        "Limited",
        "Corporation",
        "Department",
        "P·H·D",
        "A·K·A",
    ]
) | {"et cetera"}

_URL = re.compile(
    r"\b(?:https?://|ftp://|www\.)[^\s<>\"']+[^\s<>\"'.,;:!?)\]}]"
    r"|\b(?:[a-z0-9-]+\.)+(?:com|org|net|edu|gov|io|ai|dev|app|co\.uk|uk|de|fr|eu|info)"
    r"\b(?:/[^\s<>\"']*[^\s<>\"'.,;:!?)\]}])?",
    re.I,
)
_EMAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_ADDRESS_SIGNS = {
    ".": "dot", "/": "slash", "-": "dash", "_": "underscore", "@": "at", "?": "question mark",
    "=": "equals", "&": "and", "+": "plus", "#": "hash", "%": "percent", ":": "colon", "~": "tilde",
}  # fmt: skip

# Letters when written as capitals among other words, although the lexicon has a word of that form.
_SPELLED_WORDS = frozenset(
    ["US", "IT", "AM", "PM", "UK", "EU", "UN", "AI", "TV", "PC", "ID", "CD", "HR", "PR"]
)


def say_abbreviations(text: str) -> str:
    """Titles, Latin shorthand and the like in full."""
    for written, spoken in _ABBREVIATIONS:
        text = re.sub(rf"(?<![\w.]){written}(?!\w)", _expanded(spoken), text)
    return re.sub(r"\b(?:[A-Za-z]\.){2,}", _dotted, text)


def _expanded(spoken: str) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        ends = match[0].endswith(".") and spoken in _KEEPS_STOP
        return spoken + ("." if ends and _ENDS_SENTENCE.match(match.string, match.end()) else "")

    return replace


def _dotted(match: re.Match[str]) -> str:
    """``U.S.`` and ``a.m.``: letters, with the sentence's full stop kept."""
    letters = "·".join(match[0].replace(".", "").upper())
    after = match.string[match.end() :]
    ends = not after.strip() or re.match(r"\s+(?:[A-Z][a-z]+\b)", after) is not None
    return letters + ("." if ends and (not after.strip() or letters in ("A·M", "P·M")) else "")


def say_addresses(text: str) -> str:
    """E-mail addresses and URLs, sign by sign; the scheme and ``www`` are left unsaid."""
    text = _EMAIL.sub(lambda match: _say_address(match[0]), text)
    return _URL.sub(
        lambda match: _say_address(re.sub(r"^(?:\w+://)?(?:www\.)?", "", match[0], flags=re.I)),
        text,
    )


def _say_address(address: str) -> str:
    words: list[str] = []
    for part in re.findall(r"[A-Za-z]+|\d+|.", address.rstrip("/")):
        if part in _ADDRESS_SIGNS:
            words.append(_ADDRESS_SIGNS[part])
        elif part.isdigit():
            words.append(cardinal(part) if len(part) < 3 else spell_digits(part))
        elif part.isascii() and part.isalpha():
            short = len(part) == 2 and part.lower() != "co" and words[-1:] == ["dot"]
            words.append("·".join(part.upper()) if short else part.lower())
    return " ".join(words)


def say_letters(text: str) -> str:
    """Mark what is certainly said letter by letter: capitals that cannot be a word, lone capitals.

    Other words in capitals are left to the pronunciation, which knows the words there are.
    """
    words = re.findall(r"[A-Za-z']+", text)
    shouted = sum(len(word) for word in words if word.isupper() and len(word) > 1)
    all_caps = len(words) > 2 and shouted > 0.6 * sum(len(word) for word in words)

    def mark(match: re.Match[str]) -> str:
        word, suffix = match[1], match[2] or ""
        spelled = not re.search(r"[AEIOUY]", word) or (word in _SPELLED_WORDS and not all_caps)
        return "·".join(word) + suffix if spelled else match[0]

    text = re.sub(r"(?<![A-Za-z·'])([A-Z]{2,6})('?s)?(?![A-Za-z·'])", mark, text)
    # A lone capital is a letter ("vitamin C", "plan B"), except I and a sentence's first A.
    text = re.sub(r"(?<![A-Za-z·'])([B-HJ-Z])(?![A-Za-z·'])", r"\1·", text)
    return re.sub(r"(?<=[a-z] )A(?=[,.!?;:]|$)", "A·", text)
