"""Reads server-sent events as a client does."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx

Event = tuple[str, dict[str, Any]]


def stream(address: str, timeout: float = 180, **request: Any) -> Iterator[Event]:
    """POST a turn and yield its events as they come."""
    with httpx.stream("POST", f"{address}/v1/turns", timeout=timeout, **request) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


def turn(address: str, **request: Any) -> list[Event]:
    """A whole turn."""
    return list(stream(address, **request))


def of(events: list[Event], name: str) -> list[dict[str, Any]]:
    return [data for event, data in events if event == name]


def joined(events: list[Event], name: str) -> bytes:
    return b"".join(base64.b64decode(data["data"]) for data in of(events, name))
