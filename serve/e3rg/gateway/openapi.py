"""What the OpenAPI document says of routes that read their bodies themselves.

Bodies are read while they arrive, with bounds (uploads.py), so FastAPI cannot derive them.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


def takes(
    *,
    json: type[BaseModel] | None = None,
    form: type[BaseModel] | None = None,
    files: dict[str, bool] | None = None,
) -> dict[str, Any]:
    """``openapi_extra`` of a route: the body that it reads.

    Args:
        json: model of a JSON body.
        form: model of a multipart body's fields.
        files: the multipart body's file fields, and whether each is required.
    """
    content: dict[str, Any] = {}
    if json is not None:
        content["application/json"] = {"schema": json.model_json_schema()}
    if form is not None:
        schema = form.model_json_schema()
        for name, required in (files or {}).items():
            schema.setdefault("properties", {})[name] = {"type": "string", "format": "binary"}
            if required:
                schema.setdefault("required", []).append(name)
        content["multipart/form-data"] = {"schema": schema}
    return {"requestBody": {"required": True, "content": content}}
