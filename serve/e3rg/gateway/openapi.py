"""What a route takes and gives, for the OpenAPI 3.1 document (https://spec.openapis.org/oas/v3.1.1).

Bodies are read while they arrive, with bounds (uploads.py), and answers are written by hand where
they stream: FastAPI cannot derive such routes. They say it with the functions here; the rest
follows from rules that hold for every route (openapi_document.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter


def takes(
    *,
    json: type[BaseModel] | None = None,
    form: type[BaseModel] | None = None,
    files: dict[str, bool] | None = None,
    one_of: Sequence[str] = (),
    bounds: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """``openapi_extra`` of a route: the body that it reads.

    Args:
        json: model of a JSON body.
        form: model of a multipart body's fields.
        files: the multipart body's file fields, and whether each is required.
        one_of: fields of which at least one must be there; in JSON, of those that it has.
        bounds: what a profile adds to the schemas of fields: ``{"text": {"maxLength": 4000}}``.
    """
    content: dict[str, Any] = {}
    if json is not None:
        schema = json.model_json_schema()
        _demand(schema, one_of)
        _bound(schema, bounds or {})
        content["application/json"] = {"schema": schema}
    if form is not None or files:
        schema = form.model_json_schema() if form else {"type": "object"}
        for part in schema.get("properties", {}).values():
            _without_null(part)
        if form is not None and json is not None:
            schema["title"] = f"{form.__name__}Form"
        for name, required in (files or {}).items():
            schema.setdefault("properties", {})[name] = {"type": "string", "format": "binary"}
            if required:
                schema.setdefault("required", []).append(name)
        _demand(schema, one_of)
        _bound(schema, bounds or {})
        content["multipart/form-data"] = {"schema": schema}
    return {"requestBody": {"required": True, "content": content}}


def gives(
    json: Any = None,
    *,
    events: Mapping[str, Any] | None = None,
    binary: Sequence[str] = (),
    status: int = 200,
    description: str = "Done.",
    headers: Mapping[str, str] | None = None,
    links: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[int | str, dict[str, Any]]:
    """``responses`` of a route: its answer in every form that it can have.

    Args:
        json: type of a JSON answer (a model, a TypedDict).
        events: types of the data of server-sent events, by the events' names; "" for events that
            have none, which end with ``[DONE]``.
        binary: media types of answers that are bytes.
        status: of the answer.
        description: what it is.
        headers: further headers of it and what they say.
        links: operations that take something of it: operation id to parameter to runtime
            expression (https://spec.openapis.org/oas/v3.1.1#link-object).
    """
    content: dict[str, Any] = {}
    if json is not None:
        content["application/json"] = {"schema": schema_of(json)}
    if events:
        content["text/event-stream"] = {"schema": {"anyOf": list(_events(events))}}
    for media_type in binary:
        content[media_type] = {"schema": {"type": "string", "format": "binary"}}
    answer: dict[str, Any] = {"description": description, "content": content}
    if headers:
        answer["headers"] = {
            name: {"description": meaning, "required": True, "schema": {"type": "string"}}
            for name, meaning in headers.items()
        }
    if links:
        answer["links"] = {
            operation: {"operationId": operation, "parameters": dict(parameters)}
            for operation, parameters in links.items()
        }
    return {status: answer}


def _events(events: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Schemas of the events as they are parsed (JSON Schema 2020-12, vocabulary for content)."""
    for name, kind in events.items():
        data = {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": schema_of(kind),
        }
        event = {"event": {"const": name}} if name else {}
        yield {
            "type": "object",
            "properties": {**event, "data": data},
            "required": [*event, "data"],
        }
    if "" in events:
        yield {"type": "object", "properties": {"data": {"const": "[DONE]"}}, "required": ["data"]}


def fails(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """``responses`` of a route: errors beyond those that follow from what every route does."""
    return {status: {} for status in statuses}


def schema_of(kind: Any) -> dict[str, Any]:
    """JSON Schema of what a route sends; what it defines is under ``$defs``."""
    return TypeAdapter(kind).json_schema(mode="serialization")


def _without_null(part: dict[str, Any]) -> None:
    # A form cannot hold null: what is not known is not sent.
    kinds = [kind for kind in part.pop("anyOf", []) if kind.get("type") != "null"]
    if len(kinds) == 1:
        part.update({**kinds[0], **part})
    elif kinds:
        part["anyOf"] = kinds
    if "default" in part and part["default"] is None:
        del part["default"]


def _demand(schema: dict[str, Any], one_of: Sequence[str]) -> None:
    names = [name for name in one_of if name in schema["properties"]]
    for name in names:
        _without_null(schema["properties"][name])
    if len(names) == 1:
        schema.setdefault("required", []).append(names[0])
    elif names:
        schema["anyOf"] = [{"required": [name]} for name in names]


def _bound(schema: dict[str, Any], bounds: Mapping[str, Mapping[str, Any]]) -> None:
    for name, more in bounds.items():
        part = schema["properties"][name]
        kinds = [kind for kind in part.get("anyOf", []) if kind.get("type") != "null"]
        (kinds[0] if kinds else part).update(more)
