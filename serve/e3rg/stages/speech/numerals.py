"""English number words: cardinals, ordinals, decimals, years and digits.

A speller of its own, since the usual library for this is LGPL.
"""

from __future__ import annotations

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = ("", "thousand", "million", "billion", "trillion", "quadrillion")
_IRREGULAR = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_MAX_WORD_DIGITS = 15  # a longer number is said digit by digit


def cardinal(digits: str) -> str:
    """Spell a whole number given as digits: ``"21"`` → ``twenty-one``."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > _MAX_WORD_DIGITS:
        return spell_digits(digits)
    value = int(digits)
    if value < 1000:
        return _below_thousand(value)
    groups: list[str] = []
    scale = 0
    while value:
        value, group = divmod(value, 1000)
        if group:
            groups.append(f"{_below_thousand(group)} {_SCALES[scale]}".strip())
        scale += 1
    return " ".join(reversed(groups))


def _below_thousand(value: int) -> str:
    hundreds, rest = divmod(value, 100)
    parts = [f"{_ONES[hundreds]} hundred"] if hundreds else []
    if rest or not hundreds:
        parts.append(_below_hundred(rest))
    return " ".join(parts)


def _below_hundred(value: int) -> str:
    if value < 20:
        return _ONES[value]
    tens, ones = divmod(value, 10)
    return f"{_TENS[tens]}-{_ONES[ones]}" if ones else _TENS[tens]


def ordinal(digits: str) -> str:
    """Spell an ordinal given as digits: ``"21"`` → ``twenty-first``."""
    words = cardinal(digits)
    cut = max(words.rfind(" "), words.rfind("-")) + 1
    head, last = words[:cut], words[cut:]
    if last in _IRREGULAR:
        return head + _IRREGULAR[last]
    return head + (last[:-1] + "ieth" if last.endswith("y") else last + "th")


def year(digits: str) -> str:
    """Spell a four-digit year as people say it: ``1905`` → ``nineteen oh five``."""
    century, rest = divmod(int(digits), 100)
    if not 10 <= century <= 99 or (century == 20 and rest < 10) or int(digits) % 1000 == 0:
        return cardinal(digits)
    if rest == 0:
        return f"{_below_hundred(century)} hundred"
    tail = _below_hundred(rest) if rest >= 10 else f"oh {_ONES[rest]}"
    return f"{_below_hundred(century)} {tail}"


def spell_digits(digits: str, *, zero: str = "zero") -> str:
    """Say digits one by one: ``"502"`` → ``five zero two``."""
    return " ".join(zero if digit == "0" else _ONES[int(digit)] for digit in digits)


def decimal(number: str) -> str:
    """Spell a number with optional sign, thousands commas and decimal point."""
    sign = ""
    if number[:1] in "-−+":
        sign = "plus " if number[0] == "+" else "minus "
        number = number[1:]
    whole, _, fraction = number.replace(",", "").partition(".")
    if len(whole) > 1 and whole[0] == "0" and not fraction:
        return sign + spell_digits(whole)
    words = sign + cardinal(whole or "0")
    return f"{words} point {spell_digits(fraction)}" if fraction else words


def plural(words: str) -> str:
    """Plural of number words: ``nineteen nineties``, ``sixes``."""
    if words.endswith("y"):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith("x") else "s")
