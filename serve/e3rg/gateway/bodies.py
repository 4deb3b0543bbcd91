"""The fields of a request, checked; the first fault is told by its name.

Here too are the fields that several protocols have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from e3rg.errors import E3RGError

M = TypeVar("M", bound=BaseModel)


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must hold printable characters only")
    return value


Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""Of an identity, a conversation, an item."""

User = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_printable)]
"""Who speaks; printable, so that every database can store it and every log show it."""

ModelName = Annotated[str, Field(max_length=256)]
"""See gateway/catalog.py."""

Seed = Annotated[int, Field(ge=0, lt=2**31)]


class Strict(BaseModel):
    """A body, or an object in one, that refuses fields it does not know."""

    model_config = ConfigDict(extra="forbid")


class VoiceId(Strict):
    """A voice by its id."""

    id: Annotated[str, Field(max_length=256)]


Voice = Annotated[str, Field(max_length=256)] | VoiceId
"""OpenAI's two ways to name a voice; see gateway/voices.py."""


def voice_name(voice: Voice | None) -> str | None:
    """The name in either of its forms."""
    return voice.id if isinstance(voice, VoiceId) else voice


def unsupported(param: str, why: str) -> E3RGError:
    """The error for what OpenAI's API has and this server, or this model, has not.

    Args:
        param: the field.
        why: the reason, and what to send instead.
    """
    return E3RGError("unsupported_parameter", f"{param}: {why}", param=param)


def parse(model: type[M], fields: Mapping[str, Any], *, strict: bool = False) -> M:
    """Check fields against a model.

    Args:
        model: what is taken; it forbids extra fields.
        fields: what came.
        strict: JSON knows its own types, so that "5" is not a number; forms know only text.

    Raises:
        E3RGError: ``unknown_field`` or ``invalid_type``, for the first fault.
    """
    if model.model_config.get("extra") == "forbid":
        _check_names(model, fields)
    try:
        if strict:
            # As JSON: in Python's own values, strict would ask for the members of enumerations.
            return model.model_validate_json(json.dumps(fields), strict=True)
        return model.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        param = ".".join(str(part) for part in fault["loc"])[:64] or None
        if fault["type"] == "extra_forbidden":
            raise E3RGError("unknown_field", f"there is no field {param!r}", param=param) from error
        raise E3RGError("invalid_type", f"{param}: {fault['msg']}", param=param) from error


def _check_names(model: type[BaseModel], fields: Mapping[str, Any]) -> None:
    # Before anything else: pydantic lists every fault, and a body can have 100,000 unknown names.
    known = [info.alias or name for name, info in model.model_fields.items()]
    for name in fields:
        if name not in known:
            raise E3RGError(
                "unknown_field",
                f"there is no field {name[:64]!r}; the fields are {', '.join(known)}",
                param=name[:64] or None,
            )
