"""``response_format``: free text, any JSON object, or JSON of a schema
(https://platform.openai.com/docs/guides/structured-outputs).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from e3rg.errors import E3RGError
from e3rg.gateway.bodies import Strict

_MAX_DEPTH = 16
_MAX_VALUES = 2000
_MAX_COUNT = 1000
_MAX_NUMBER = 2**53
# A grammar is compiled from these; a minimum above its maximum never ends in llama.cpp.
_COUNTS = (("minLength", "maxLength"), ("minItems", "maxItems"))
_NUMBERS = (("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum"))
_REFUSED = ("pattern", "patternProperties", "minProperties", "maxProperties")


class TextFormat(Strict):
    """Free text."""

    type: Literal["text"]


class JsonObject(Strict):
    """Any JSON object."""

    type: Literal["json_object"]


class JsonSchema(Strict):
    """A named schema."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    schema_: dict[str, Any] = Field(alias="schema")
    description: str | None = None
    strict: bool | None = None


class SchemaFormat(Strict):
    """JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[TextFormat | JsonObject | SchemaFormat, Field(discriminator="type")]


def wanted_format(given: TextFormat | JsonObject | SchemaFormat | None) -> dict[str, Any] | None:
    """The format as DialogueRequest takes it.

    Raises:
        E3RGError: ``invalid_json_schema``, for a schema that is too large, too deep or
            contradicts itself, or that says what the grammar of an engine cannot.
    """
    if given is None or isinstance(given, TextFormat):
        return None
    if isinstance(given, JsonObject):
        return {"type": "json_object"}
    schema = given.json_schema.schema_
    _check(schema)
    named = {"name": given.json_schema.name, "schema": schema, "strict": True}
    return {"type": "json_schema", "json_schema": named}


def _check(schema: dict[str, Any]) -> None:
    seen = 0
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > 2 * _MAX_DEPTH or seen > _MAX_VALUES:
            raise _invalid(f"it is larger than {_MAX_VALUES} values or {_MAX_DEPTH} levels")
        if isinstance(value, dict):
            _check_bounds(value)
            waiting += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list):
            waiting += [(each, depth + 1) for each in value]
        elif isinstance(value, int | float) and abs(value) > _MAX_NUMBER:
            raise _invalid(f"{value:g} is beyond what JSON numbers hold exactly")


def _check_bounds(schema: dict[str, Any]) -> None:
    for name in _REFUSED:
        # A property may have that name; its value is then a schema.
        if isinstance(schema.get(name), str | int) and not isinstance(schema[name], bool):
            raise _invalid(f"{name} is not supported; leave it out")
    for low, high in (*_COUNTS, *_NUMBERS):
        bounds = [schema[name] for name in (low, high) if name in schema]
        if any(isinstance(each, dict) for each in bounds):
            continue  # properties of that name
        if any(isinstance(each, bool) or not isinstance(each, int | float) for each in bounds):
            raise _invalid(f"{low} and {high} are numbers")
        if (low, high) in _COUNTS and not all(
            isinstance(each, int) and 0 <= each <= _MAX_COUNT for each in bounds
        ):
            raise _invalid(f"{low} and {high} are whole numbers from 0 to {_MAX_COUNT}")
        if len(bounds) == 2 and bounds[0] > bounds[1]:
            raise _invalid(f"{low} is above {high}")


def _invalid(why: str) -> E3RGError:
    return E3RGError(
        "invalid_json_schema",
        f"response_format.json_schema.schema: {why}",
        param="response_format",
    )
