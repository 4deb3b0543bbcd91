"""Written English to spoken English: every figure, sign and address becomes words.

The result holds only letters, apostrophes, hyphens, spaces, the punctuation ``, . ! ? ; : — …`` and
the middle dot, which marks letters said one by one (``U·S·A``). What cannot be said in English
(emoji, other scripts, markup) is dropped; nothing else is.
"""

from __future__ import annotations

import html
import re
import unicodedata

from e3rg.stages.speech.cleanup import clean_characters, strip_markup
from e3rg.stages.speech.figures import say_figures
from e3rg.stages.speech.wording import say_abbreviations, say_addresses, say_letters

_SIGNS = {
    "&": " and ",
    "+": " plus ",
    "=": " equals ",
    "@": " at ",
    "%": " percent ",
    "°": " degrees ",
    "×": " times ",
    "÷": " divided by ",
    "±": " plus or minus ",
    "≈": " about ",
    "~": " about ",
    "≤": " at most ",
    "≥": " at least ",
    "§": " section ",
    "©": " copyright ",
    "®": "",
    "™": "",
    "€": " euros ",
    "£": " pounds ",
    "$": " dollars ",
    "¥": " yen ",
    "₹": " rupees ",
    "¢": " cents ",
    "µ": " micro ",
    "π": " pi ",
    "∞": " infinity ",
    "√": " square root of ",
    "→": ", ",
}


def normalize(text: str) -> str:
    """Turn any text into words and pauses; ``""`` when nothing in it can be spoken."""
    text = clean_characters(html.unescape(text))
    text = strip_markup(text)
    text = say_addresses(text)
    text = say_abbreviations(text)
    text = say_figures(re.sub(r"#(?=\d)", "number ", text))
    text = re.sub(r"(?<=\s)/(?=\s)|(?<=\w)/(?=\w)", " slash ", text)
    text = re.sub(r"#(?=[A-Za-z])", "hashtag ", text)
    text = re.sub(r"(?<=\s)<(?=\s)", "less than", text)
    text = re.sub(r"(?<=\s)>(?=\s)", "greater than", text)
    for sign, words in _SIGNS.items():
        text = text.replace(sign, words)
    text = re.sub(r"(?<=\w) \* (?=\w)", " times ", text)
    text = say_letters(_strip_accents(text))
    return _tidy(text)


def _strip_accents(text: str) -> str:
    special = str.maketrans(
        {"ß": "ss", "æ": "ae", "Æ": "Ae", "ø": "o", "Ø": "O", "œ": "oe", "Œ": "Oe", "ł": "l",
         "Ł": "L", "đ": "d", "Đ": "D", "þ": "th", "Þ": "Th", "ð": "th", "ı": "i"}
    )  # fmt: skip
    decomposed = unicodedata.normalize("NFD", text.translate(special))
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def _tidy(text: str) -> str:
    """Bring punctuation to the voice's own set and drop whatever is still not speech."""
    text = re.sub(r"\s*(?:—|–|―|--+|(?<=\s)-(?=\s))\s*", " — ", text)
    text = re.sub(r"\s*[(\[{]\s*", ", ", text)
    text = re.sub(r"\s*[)\]}]\s*", ", ", text)
    text = re.sub(r"[^A-Za-z'·\-\s,.!?;:—…]", " ", text)
    text = re.sub(r"(?<![A-Za-z·])['\-]+(?![A-Za-z])|(?<=[A-Za-z])-+(?![A-Za-z])", " ", text)
    text = re.sub(r"\.{2,}|…[.…]*", "…", text)
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"\s+([,.!?;:…])", r"\1", text)
    text = re.sub(r"[,.!?;:…—](?:\s*[,.!?;:…—])+", _strongest, text)
    text = re.sub(r"([,.!?;:…])(?=[A-Za-z'—])", r"\1 ", text)
    text = re.sub(r" {2,}", " ", text)
    text = re.sub(r"^[\s,.!?;:—…]+", "", text).strip()
    return text if re.search(r"[A-Za-z]", text) else ""


def _strongest(match: re.Match[str]) -> str:
    """One mark for a run of them, the one that says most about the voice."""
    return next(mark for mark in "?!….;:—," if mark in match[0]) + " "
