"""The fields of a request, checked; the first fault is told by its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from e3rg.errors import E3RGError

M = TypeVar("M", bound=BaseModel)


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
