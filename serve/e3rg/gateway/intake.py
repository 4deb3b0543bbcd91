"""What a request's text must be before any stage works on it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from e3rg.errors import E3RGError

_SCRIPTS = {
    "ar": {"ARABIC"},
    "el": {"GREEK"},
    "he": {"HEBREW"},
    "hi": {"DEVANAGARI"},
    "ja": {"HIRAGANA", "KATAKANA", "CJK"},
    "ko": {"HANGUL"},
    "ru": {"CYRILLIC"},
    "th": {"THAI"},
    "zh": {"CJK"},
}
_LATIN = {"LATIN"}


def clean_text(text: str, max_chars: int, languages: Sequence[str], param: str = "text") -> str:
    """Check a speaker's words and bring them into the form that the models read.

    Control characters go, white space is folded, and a message of emoji alone becomes their names,
    since a crying face says something too.

    Args:
        text: what was sent.
        max_chars: limit of this profile.
        languages: ISO 639-1 codes that the profile's models know.
        param: the field's name, for messages.

    Raises:
        E3RGError: ``text_empty``, ``text_too_long``, ``text_no_words``, ``unsupported_language``.
    """
    if len(text) > max_chars:
        raise E3RGError(
            "text_too_long",
            f"{param} has {len(text)} characters; at most {max_chars} are taken, send less",
            param=param,
            status=400,
        )
    kept = "".join(
        char if unicodedata.category(char) not in {"Cc", "Cs", "Co", "Cn"} else " " for char in text
    )
    cleaned = " ".join(unicodedata.normalize("NFC", kept).split())
    if not cleaned:
        raise E3RGError("text_empty", f"{param} is blank; say something in it", param=param)
    if not any(char.isalnum() for char in cleaned):
        cleaned = _emoji_names(cleaned)
        if not cleaned:
            raise E3RGError(
                "text_no_words",
                f"{param} holds only punctuation; write at least one word",
                param=param,
            )
    _check_script(cleaned, languages, param)
    return cleaned


def _emoji_names(text: str) -> str:
    names = []
    for char in text:
        name = unicodedata.name(char, "").lower()
        if unicodedata.category(char) == "So" and name and name not in names:
            names.append(name)
    return ", ".join(names[:8])


def _check_script(text: str, languages: Sequence[str], param: str) -> None:
    known: set[str] = set()
    for language in languages:
        known |= _SCRIPTS.get(language, _LATIN)
    letters = [unicodedata.name(char, "?").split()[0] for char in text if char.isalpha()]
    foreign = [script for script in letters if script not in known]
    if len(foreign) * 2 > len(letters):
        raise E3RGError(
            "unsupported_language",
            f"{param} is mostly in {foreign[0].title()} script; this profile's models know only: "
            f"{', '.join(languages)}",
            param=param,
            status=422,
        )
