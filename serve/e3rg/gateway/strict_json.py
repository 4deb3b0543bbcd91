"""JSON from strangers: what is taken can be checked, told and written again."""

from __future__ import annotations

import json
import math
from typing import Any

_MAX_VALUES = 50_000
_MAX_DEPTH = 100


def read_json(text: str) -> Any:
    """A JSON text's value.

    Stricter than RFC 8259: no name is given twice in one object, no character is half a surrogate
    pair, and nothing is nested so deeply, or holds so much, that it could not be checked.

    Raises:
        ValueError: what is wrong with it.
    """
    try:
        value = json.loads(
            text, parse_float=_number, parse_constant=_no_number, object_pairs_hook=_once
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply; flatten it") from error
    _check_size(value)
    if "\\u" in text:
        # Half a surrogate pair is no text: nothing could store or send it.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _number(text: str) -> float | int:
    """A number with a fraction or an exponent; 5.0 is an integer as JSON Schema has it."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:32]} is too large")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _check_size(whole: Any) -> None:
    """A megabyte can hold half a million values, and a fault in each of them takes seconds."""
    count, depth, level = 0, 0, [whole]
    while level:
        depth += 1
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels; flatten it")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                value = list(value.values())
            if isinstance(value, list):
                count += len(value)
                if count > _MAX_VALUES:
                    raise ValueError(f"it holds more than {_MAX_VALUES} values")
                below += value
        level = below


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number in JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; which of two values of one name counts is anybody's guess (RFC 8259 section 4)."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ValueError(f"the name {name[:64]!r} is given twice in one object")
        made[name] = value
    return made
