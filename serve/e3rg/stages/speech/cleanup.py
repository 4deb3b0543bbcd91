"""What is taken off a text before it is read: invisible characters, pictures, markup."""

from __future__ import annotations

import re
import unicodedata

_PUNCTUATION = str.maketrans(
    {
        "‘": "'", "’": "'", "ʼ": "'", "`": "'", "´": "'", "“": '"', "”": '"', "„": '"',
        "«": '"', "»": '"', "‐": "-", "‑": "-", "−": "-", "\u2044": "/", "，": ",", "。": ". ",
        "！": "!", "？": "?", "：": ":", "；": ";", "、": ",", "（": "(", "）": ")", "•": ", ",
    }
)  # fmt: skip
_FRACTIONS = {
    "½": "one half", "⅓": "one third", "⅔": "two thirds", "¼": "one quarter",
    "¾": "three quarters", "⅛": "one eighth", "⅜": "three eighths", "⅝": "five eighths",
    "⅞": "seven eighths", "⅕": "one fifth",
}  # fmt: skip


def clean_characters(text: str) -> str:
    """Compatibility forms to plain ones; control characters, emoji and other scripts dropped.

    Letters of other scripts leave a space, so that the words beside them stay apart. The Greek
    letters that English text borrows as signs (µ, π) stay.
    """
    for sign, words in _FRACTIONS.items():
        text = re.sub(rf"(?<=\d)\s?{sign}", f" and {words.replace('one ', 'a ', 1)}", text)
        text = text.replace(sign, f" {words} ")
    text = text.replace("™", " ").replace("²", " squared").replace("³", " cubed")
    text = text.replace("℃", "°C").replace("℉", "°F").replace("…", "...")
    text = unicodedata.normalize("NFKC", text.translate(_PUNCTUATION)).translate(_PUNCTUATION)
    return "".join(_keep(char) for char in text)


def _keep(char: str) -> str:
    if char.isascii():
        return char if char.isprintable() or char in "\n\t" else " "
    kind = unicodedata.category(char)
    if kind[0] == "L":
        latin = "LATIN" in unicodedata.name(char, "")
        return char if latin or char in "µπμ" else " "
    if kind == "Nd":  # digits of any script are numbers
        return str(unicodedata.decimal(char))
    if kind[0] == "M":
        return char
    if kind in ("Cf", "Sk", "Cs", "Co", "Cn"):
        return ""  # joiners, variation selectors and skin tones sit inside what is one sign
    return char if kind in ("Sm", "Sc", "Pd", "Po") or char in "°©®×÷" else " "


def strip_markup(text: str) -> str:
    """Markdown and HTML marks off; the words in them stay."""
    text = re.sub(r"<(?:br|/p|/li|/div|hr)\s*/?>", ". ", text, flags=re.I)
    text = re.sub(r"</?[A-Za-z][A-Za-z0-9]*(?:\s[^<>]*)?/?>", " ", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)\s]*\)", r"\1", text)  # link or picture
    text = re.sub(r"^\s*(?:'{3}|~~~)\w*\s*$", "", text, flags=re.M)  # a code fence's line
    text = re.sub(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$", _ended, text, flags=re.M)
    text = re.sub(r"^\s*>+\s?", "", text, flags=re.M)
    text = re.sub(r"^\s*[-*+]\s+(.*)$", _ended, text, flags=re.M)
    text = re.sub(r"^\s*[-*_=](?:\s*[-*_=]){2,}\s*$", "", text, flags=re.M)
    text = re.sub(r"(\*{1,3})(?=\S)(.+?)(?<=\S)\1", r"\2", text)
    text = re.sub(r"(?<!\w)(_{1,3}|~~)(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", text)
    text = re.sub(r"(?<!\w)'([^'\n]+)'(?!\w)", r"\1", text)  # code marks and single quotes
    text = re.sub(r"(?m)^\s*\|?[\s:|-]*-{3,}[\s:|-]*$", "", text)  # a table's rule
    return text.replace("|", ", ").replace("_", " ").replace("\\", " ")


def _ended(match: re.Match[str]) -> str:
    """A heading or list item is a sentence of its own."""
    line = match[1].strip()
    return line if not line or line[-1] in ".!?:;," else f"{line}."
