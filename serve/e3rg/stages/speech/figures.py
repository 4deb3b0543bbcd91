"""Figures in running text to words: money, dates, times, telephone numbers, measures, numbers.

The rules run from the most specific to the plainest; each leaves only words behind, so that a
figure is read once. Dates with slashes are read month first unless that cannot be.
"""

from __future__ import annotations

import re

from e3rg.stages.speech.numerals import cardinal, decimal, ordinal, plural, spell_digits, year

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_MONTH = r"(?:{})".format("|".join(f"{m}|{m[:3]}\\.?" if len(m) > 3 else m for m in _MONTHS))
_MONTH = _MONTH.replace("Sep\\.?", "Sept?\\.?")
_MONEY = {
    "$": ("dollar", "cent"),
    "€": ("euro", "cent"),
    "£": ("pound", "pence"),
    "¥": ("yen", ""),
    "₹": ("rupee", "paisa"),
}
_AMOUNTS = {
    "k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion",
    "t": "trillion", "thousand": "thousand", "million": "million", "billion": "billion",
    "trillion": "trillion",
}  # fmt: skip
_AMOUNT = r"(?i:k|mn?|bn?|t|thousand|million|billion|trillion)"
_UNITS = {
    "km/h": "kilometer per hour", "kmh": "kilometer per hour", "mph": "mile per hour",
    "m/s": "meter per second", "Mbps": "megabit per second", "km": "kilometer", "m": "meter",
    "cm": "centimeter", "mm": "millimeter", "kg": "kilogram", "g": "gram", "mg": "milligram",
    "lb": "pound", "lbs": "pound", "oz": "ounce", "ft": "foot", "mi": "mile", "yd": "yard",
    "L": "liter", "l": "liter", "ml": "milliliter", "mL": "milliliter", "ms": "millisecond",
    "s": "second", "sec": "second", "min": "minute", "mins": "minute", "h": "hour", "hr": "hour",
    "hrs": "hour", "KB": "kilobyte", "kB": "kilobyte", "MB": "megabyte", "GB": "gigabyte",
    "TB": "terabyte", "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz",
    "W": "watt", "kW": "kilowatt", "kWh": "kilowatt hour", "V": "volt", "px": "pixel",
    "°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree", "%": "percent",
}  # fmt: skip
_UNIT = "|".join(sorted((re.escape(unit) for unit in _UNITS), key=len, reverse=True))
_SAME_PLURAL = frozenset({"percent", "hertz", "kilohertz", "megahertz", "gigahertz"})
_PARTS = {"2": "half", "3": "third", "4": "quarter"}
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50}
_NTH = "st|nd|rd|th"
_AFTER = r"(?![\w])"
_BEFORE = r"(?<![\w.])"


def say_figures(text: str) -> str:
    """Replace every figure by words."""
    rules = (
        (rf"(?<!\d)([-−]?)([$€£¥₹])\s?([-−]?)({_NUMBER})(?:\s?({_AMOUNT})\b)?", _money),
        (rf"{_BEFORE}({_NUMBER})\s?([€£¢])", _money_after),
        (r"\b(\d{4})[-/](\d\d)[-/](\d\d)(?:T(\d\d:\d\d)\S*)?\b", _iso_date),
        (r"\b(\d{1,2})[/.](\d{1,2})[/.](\d{4}|\d\d)\b(?![./]\d)", _slash_date),
        (rf"\b({_MONTH})\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(\d{{4}})\b)?", _month_day),
        (rf"\b(\d\d?)(?:{_NTH})?(?:\s+of)?\s+({_MONTH})(?!\w)(?:,?\s+(\d{{4}})\b)?", _day_month),
        (r"(?:\+\d{1,3}[\s.-]?)?\(\d{2,4}\)\s?\d{3}[\s.-]?\d{4}\b", _telephone),
        (r"(?<!\w)\+\d{1,3}(?:[\s.-]\d{2,4}){2,4}\b", _telephone),
        (r"\b\d{3}[-.]\d{3}[-.]\d{4}\b|\b\d{3}-\d{4}\b", _telephone),
        (r"\b(\d{1,2}):(\d\d)(?::(\d\d))?\s?([ap])\.?m\b\.?", _clock),
        (r"\b(\d{1,2}):(\d\d)(?::(\d\d))?()\b(?!:)", _clock),
        (r"\b(\d{1,2})\s?([ap])\.?m\b(\.?)", _hour),
        (r"(?<!\w)'?(\d{0,3}0)'?s\b", _decade),
        (rf"{_BEFORE}(\d+)\s?[x×]\s?(\d+)(?:\s?[x×]\s?(\d+))?\b", _size),
        (r"\b(\d)'\s?(\d{1,2})(?:\"|''|\b)", _feet),
        (rf"{_BEFORE}({_NUMBER})\s?[-–—]\s?({_NUMBER})(?=\s?(?:{_UNIT})?{_AFTER})(?!-)", _range),
        (rf"(?<![\w.])([-−+]?(?:{_NUMBER}))\s?({_UNIT}){_AFTER}", _measure),
        (r"\b(\d{1,3})(?:st|nd|rd|th)\b|\b(\d[\d,]*)(?:st|nd|rd|th)\b", _ordinal),
        (r"(?<![\w/])(\d+)\s(\d{1,2})/(\d{1,2})(?![\w/])", _mixed_fraction),
        (r"(?<![\w/])(\d{1,2})/(\d{1,3})(?![\w/])", _fraction),
        (r"\b(\d+)\^(\d+)", lambda m: f"{cardinal(m[1])} to the power of {cardinal(m[2])}"),
        (r"\b[vV]?(\d+(?:\.\d+){2,})\b", _version),
        (r"\b(Chapter|Part|War|Volume|Section|Act|Phase|Type|Level|Book)\s+([IVXL]+)\b", _roman),
        (r"(?<=\d)\s*([*/+=<>])\s*(?=[\d-])", _operator),
        (r"(?<=\d)\s?:\s?(?=\d)", " to "),
        (r"(?<![\w.,])(1[1-9]\d\d|20\d\d)(?![\w]|[,.]\d)", lambda m: year(m[1])),
        (rf"(?<![\w.])([-−+]?)({_NUMBER})\s?(k|K|M|bn|B)?(?![\w])", _plain),
        (r"(?<![\d])\.(\d+)\b", lambda m: f"point {spell_digits(m[1])}"),
        (r"([A-Za-z]*)(\d+)(?=([A-Za-z]*))", _mixed_word),
    )  # fmt: skip
    for pattern, spoken in rules:
        text = re.sub(pattern, spoken, text)
    return text


def _count(number: str, unit: str) -> str:
    one = number.lstrip("-−+") in ("1", "1.0")
    if one or unit in _SAME_PLURAL or not unit:
        return f"{decimal(number)} {unit}".strip()
    head, *tail = unit.split(" ") if " per " in unit or unit.startswith("degree") else [unit]
    head = "feet" if head == "foot" else plural(head)
    return f"{decimal(number)} {' '.join([head, *tail])}"


def _money(match: re.Match[str]) -> str:
    sign = "minus " if match[1] or match[3] else ""
    return sign + _say_money(match[2], match[4], match[5])


def _money_after(match: re.Match[str]) -> str:
    return _count(match[1], "cent") if match[2] == "¢" else _say_money(match[2], match[1], None)


def _say_money(sign: str, number: str, amount: str | None) -> str:
    whole, part = _MONEY[sign]
    many = whole if whole == "yen" else plural(whole)
    if amount:
        return f"{decimal(number)} {_AMOUNTS[amount.lower()]} {many}"
    units, _, cents = number.replace(",", "").partition(".")
    if len(cents) not in (0, 2) or not part:
        return f"{decimal(number)} {many}"
    said = [f"{cardinal(units)} {whole if int(units) == 1 else many}"]
    if cents.strip("0"):
        coin = part if part == "pence" or int(cents) == 1 else plural(part)
        said = [*said, f"{cardinal(cents)} {coin}"] if int(units) else [f"{cardinal(cents)} {coin}"]
    return " and ".join(said)


def _day(day: str, month: int, year_: str | None) -> str:
    said = f"{_MONTHS[month - 1]} {ordinal(day)}"
    if not year_:
        return said
    full = year_ if len(year_) == 4 else f"20{year_}"
    return f"{said}, {year(full)}"


def _iso_date(match: re.Match[str]) -> str:
    month, day = int(match[2]), int(match[3])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return " ".join(spell_digits(part) for part in match.group(1, 2, 3))
    said = _day(match[3], month, match[1])
    return f"{said}, {match[4]}" if match[4] else said


def _slash_date(match: re.Match[str]) -> str:
    first, second = int(match[1]), int(match[2])
    if 1 <= first <= 12 and 1 <= second <= 31:
        return _day(match[2], first, match[3])
    if 1 <= second <= 12 and 1 <= first <= 31:
        return _day(match[1], second, match[3])
    return " ".join(cardinal(part) for part in match.group(1, 2, 3))


def _month(name: str) -> int:
    return next(i for i, month in enumerate(_MONTHS, 1) if month.startswith(name[:3]))


def _month_day(match: re.Match[str]) -> str:
    if int(match[2]) not in range(1, 32):
        return match[0]
    return _day(match[2], _month(match[1]), match[3])


def _day_month(match: re.Match[str]) -> str:
    if int(match[1]) not in range(1, 32):
        return match[0]
    lead = "" if re.search(r"\bthe\s+$", match.string[: match.start()]) else "the "
    said = f"{lead}{ordinal(match[1])} of {_MONTHS[_month(match[2]) - 1]}"
    return f"{said}, {year(match[3])}" if match[3] else said


def _telephone(match: re.Match[str]) -> str:
    number = match[0].strip()
    groups = re.findall(r"\d+", number)
    said = ", ".join(spell_digits(group) for group in groups)
    return f"plus {said}" if number.startswith("+") else said


def _clock(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), int(match[2])
    if hour > 24 or minute > 59:  # a score or a ratio
        return " to ".join(cardinal(part) for part in match.group(1, 2, 3) if part)
    if minute:
        said = f"{cardinal(match[1])} {'oh ' if minute < 10 else ''}{cardinal(match[2])}"
    else:
        said = cardinal(match[1]) if match[4] else f"{cardinal(match[1])} o'clock"
    if match[3]:
        said += f" and {_count(match[3].lstrip('0') or '0', 'second')}"
    if not match[4]:
        return said
    ends = match[0].endswith(".") and not re.match(r"\s*[a-z,]", match.string[match.end() :])
    return f"{said} {match[4].upper()}·M" + ("." if ends else "")


def _hour(match: re.Match[str]) -> str:
    ends = match[3] and not re.match(r"\s*[a-z,]", match.string[match.end() :])
    return f"{cardinal(match[1])} {match[2].upper()}·M" + ("." if ends else "")


def _decade(match: re.Match[str]) -> str:
    digits = match[1]
    if len(digits) == 4:
        return plural(year(digits))
    return plural(cardinal(digits))


def _size(match: re.Match[str]) -> str:
    return " by ".join(cardinal(part) for part in match.groups() if part)


def _feet(match: re.Match[str]) -> str:
    return f"{cardinal(match[1])} foot {cardinal(match[2])}"


def _range(match: re.Match[str]) -> str:
    first, second = match[1], match[2]
    years = all(re.fullmatch(r"1[1-9]\d\d|20\d\d", part) for part in (first, second))
    spell = year if years else decimal
    # The second number stays a figure when a unit follows: that rule reads it together.
    unit = re.match(rf"\s?(?:{_UNIT})(?!\w)", match.string[match.end() :])
    return f"{spell(first)} to {second if unit else spell(second)}"


def _measure(match: re.Match[str]) -> str:
    return _count(match[1], _UNITS[match[2]])


def _ordinal(match: re.Match[str]) -> str:
    return ordinal((match[1] or match[2]).replace(",", ""))


def _mixed_fraction(match: re.Match[str]) -> str:
    return f"{cardinal(match[1])} and {_parts(match[2], match[3])}"


def _fraction(match: re.Match[str]) -> str:
    top, bottom = match[1], match[2]
    if bottom == "10":
        return f"{cardinal(top)} out of ten"
    if 0 < int(top) < int(bottom) <= 20:
        return _parts(top, bottom)
    return f"{cardinal(top)} slash {cardinal(bottom)}"


def _parts(top: str, bottom: str) -> str:
    part = _PARTS.get(bottom) or ordinal(bottom)
    if int(top) > 1:
        part = "halves" if part == "half" else plural(part)
    return f"{cardinal(top)} {part}"


def _version(match: re.Match[str]) -> str:
    parts = match[1].split(".")
    lead = "version " if match[0][0] in "vV" else ""
    joint = " dot " if len(parts) == 4 else " point "
    return lead + joint.join(cardinal(part) for part in parts)


def _roman(match: re.Match[str]) -> str:
    values = [_ROMAN[char] for char in match[2]]
    pairs = zip(values, [*values[1:], 0], strict=True)
    total = sum(-value if value < after else value for value, after in pairs)
    return f"{match[1]} {cardinal(str(total))}"


def _operator(match: re.Match[str]) -> str:
    names = {
        "*": "times", "/": "divided by", "+": "plus", "=": "equals",
        "<": "is less than", ">": "is greater than",
    }  # fmt: skip
    return f" {names[match[1]]} "


def _plain(match: re.Match[str]) -> str:
    sign, number, scale = match[1], match[2], match[3]
    said = decimal(sign + number)
    return f"{said} {_AMOUNTS[scale.lower()]}" if scale else said


def _mixed_word(match: re.Match[str]) -> str:
    """Letters glued to digits: ``mp3``, ``B2B``, ``COVID-19``."""
    before, digits, after = match[1], match[2], match[3]
    if len(before) <= 3 and before.isupper():
        before = "·".join(before) + "·"
    said = spell_digits(digits) if digits[0] == "0" or len(digits) > 4 else cardinal(digits)
    return f"{before} {said}{' ' if after else ''}".lstrip()
