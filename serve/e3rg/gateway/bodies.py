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
    try:
        if strict:
            # As JSON: in Python's own values, strict would ask for the members of enumerations.
            return model.model_validate_json(json.dumps(fields), strict=True)
        return model.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        param = ".".join(str(part) for part in fault["loc"])[:64] or None
        if fault["type"] == "extra_forbidden":
            message = f"there is no field {param!r}"
            if len(fault["loc"]) == 1:
                message += f"; the fields are {', '.join(model.model_fields)}"
            raise E3RGError("unknown_field", message, param=param) from error
        raise E3RGError("invalid_type", f"{param}: {fault['msg']}", param=param) from error
