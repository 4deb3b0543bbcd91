"""The OpenAPI 3.1 document: FastAPI's, completed by rules that hold for every route."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from e3rg.gateway.openapi import schema_of
from e3rg.gateway.shapes import Error

_SCHEMAS = "#/components/schemas/"
_METHODS = ("get", "post", "put", "patch", "delete")

_INTRODUCTION = """\
An empathetic listener: emotion in; text, speech and a talking head out.

`/v1/turns` is the native protocol. The other `/v1` endpoints are OpenAI's, so that OpenAI's clients
work with `base_url` set to this server's `/v1`; `/v1/realtime` is a WebSocket and is not in this
document. Every error has OpenAI's shape, with a stable `code`. Every answer names its request in
`X-Request-Id`; send one of your own to have it come back.
"""

TAGS = [
    {"name": "turns", "description": "The native protocol: one exchange with a listener."},
    {"name": "identities", "description": "Who listens."},
    {"name": "openai", "description": "Endpoints for OpenAI's clients."},
    {"name": "realtime", "description": "Sessions over WebRTC."},
    {"name": "operations", "description": "For whoever runs the server."},
]

_REASONS = {
    400: "A field is missing, unknown or not of its type.",
    403: "It may not be done, or another site's page asked for it.",
    404: "There is no such thing.",
    408: "The body did not arrive in time.",
    409: "It does not fit what is there.",
    413: "The body or a file in it is too large.",
    415: "The body's Content-Type is not taken.",
    416: "No such part of the file.",
    422: "Well formed, but it cannot be used: the message says why.",
    429: "Too many requests.",
    500: "The server failed; the message holds the request's id.",
    502: "An engine gave no usable result.",
    503: "The server is busy, or a stage is away: try again.",
    504: "It took longer than its time limit.",
    507: "The server's disk is full.",
}
# What reading a body, and the work asked for by it, can end in.
_BODY = (400, 408, 413, 415, 422, 502, 503, 504, 507)

_REQUEST_ID = {
    "description": "The request's id; the caller's own if it sent one.",
    "required": True,
    "schema": {"type": "string"},
}
_RETRY_AFTER = {
    "description": "Seconds after which a retry makes sense.",
    "required": True,
    "schema": {"type": "integer", "minimum": 0},
}


def document(generated: dict[str, Any]) -> dict[str, Any]:
    """Complete a document that FastAPI has generated.

    Args:
        generated: as FastAPI makes it; left as it is.
    """
    made = copy.deepcopy(generated)
    made["info"]["description"] = _INTRODUCTION
    made["info"]["license"] = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    made["servers"] = [{"url": "/", "description": "this server"}]
    made["tags"] = TAGS
    components = made.setdefault("components", {})
    schemas: dict[str, Any] = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    used: set[int] = set()
    for path, operations in made["paths"].items():
        for method in _METHODS:
            if method in operations:
                used |= _complete(path, method, operations[method])
    schemas["Error"] = schema_of(Error)
    components["responses"] = {_name(status): _error(status) for status in sorted(used)}
    _hoist(made, schemas)
    components["schemas"] = dict(sorted(schemas.items()))
    return made


def _complete(path: str, method: str, operation: dict[str, Any]) -> set[int]:
    """Add the errors that follow from what the operation is; gives their statuses."""
    responses: dict[str, Any] = operation["responses"]
    # What FastAPI sums up is the function's name; its docstring says more.
    summary, _, more = operation.pop("description", operation["summary"]).partition("\n\n")
    operation["summary"] = summary.rstrip(".")
    if more:
        operation["description"] = more
    if "HTTPValidationError" in str(responses.get("422", {})):
        del responses["422"]
    parameters = operation.get("parameters", [])
    follow = {500}
    if any(part["in"] != "path" or set(part["schema"]) - {"type", "title"} for part in parameters):
        follow.add(400)
    if "{" in path:
        follow.add(404)
    if method != "get":
        follow.add(403)
    if "requestBody" in operation:
        follow.update(_BODY)
        # Who or what is named in it may be unknown.
        if any(f"'{name}'" in str(operation["requestBody"]) for name in ("model", "identity")):
            follow.add(404)
    for status in follow:
        responses.setdefault(str(status), {})
    errors: set[int] = set()
    for number, response in responses.items():
        status = int(number)
        content = response.get("content", {})
        if status >= 400 and not content:
            errors.add(status)
            responses[number] = {"$ref": f"#/components/responses/{_name(status)}"}
            continue
        if len(content) > 1 and content.get("application/json") == {"schema": {}}:
            del content["application/json"]  # FastAPI's guess
        response.setdefault("headers", {})["X-Request-Id"] = _REQUEST_ID
    operation["responses"] = dict(sorted(responses.items()))
    return errors


def _error(status: int) -> dict[str, Any]:
    headers = {"X-Request-Id": _REQUEST_ID}
    if status in {429, 503}:
        headers["Retry-After"] = _RETRY_AFTER
    return {
        "description": _REASONS.get(status, HTTPStatus(status).phrase + "."),
        "headers": headers,
        "content": {"application/json": {"schema": {"$ref": f"{_SCHEMAS}Error"}}},
    }


def _name(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")


def _title(schema: dict[str, Any]) -> str:
    return str(schema.get("title", "Other")).replace(" ", "")


def _hoist(made: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Move named object schemas, and what they define, to the components."""
    for holder, key in list(_schema_places(made)):
        schema = _absorb(holder[key], schemas)
        holder[key] = schema
        if schema.get("type") == "object" and "title" in schema:
            named = {"$defs": {_title(schema): schema}, "$ref": f"#/$defs/{_title(schema)}"}
            holder[key] = _absorb(named, schemas)
    for name in list(schemas):
        schemas[name] = _absorb(schemas[name], schemas)


def _absorb(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Move what a schema defines to the components; one name there stands for one schema."""
    definitions = schema.get("$defs", {})
    names = {name: name for name in definitions}
    while True:
        pointed = {names[name]: _pointed(definitions[name], names) for name in definitions}
        taken = [
            name
            for name in names
            if schemas.get(names[name], pointed[names[name]]) != pointed[names[name]]
        ]
        if not taken:
            break
        for name in taken:  # and then those that refer to them, whose content has changed with it
            names[name] = f"{_title(schema)}{names[name]}"
    schemas.update(pointed)
    rest = {key: value for key, value in schema.items() if key != "$defs"}
    return _pointed(rest, names)  # type: ignore[no-any-return]


def _schema_places(made: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for operations in made["paths"].values():
        for operation in operations.values():
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for body in bodies:
                for media in body.get("content", {}).values():
                    if "schema" in media:
                        for event in media["schema"].get("anyOf", []):
                            data = event.get("properties", {}).get("data", {})
                            if "contentSchema" in data:
                                yield data, "contentSchema"
                        yield media, "schema"


def _pointed(node: Any, names: Mapping[str, str]) -> Any:
    """A copy whose references (and mappings of discriminators) lead to the components.

    Limits of integers, which pydantic writes as floats, are integers again.
    """
    if isinstance(node, float) and node.is_integer():
        return int(node)
    if isinstance(node, dict):
        return {key: _pointed(value, names) for key, value in node.items()}
    if isinstance(node, list):
        return [_pointed(value, names) for value in node]
    if isinstance(node, str) and node.startswith("#/$defs/"):
        return _SCHEMAS + names[node.removeprefix("#/$defs/")]
    return node
