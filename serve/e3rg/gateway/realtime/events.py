"""Ids and server events of the realtime API.

https://platform.openai.com/docs/api-reference/realtime-server-events
"""

from __future__ import annotations

import secrets
from typing import Any

from e3rg.errors import E3RGError

Event = dict[str, Any]
"""One event, ready for JSON."""


def new_id(kind: str) -> str:
    """A fresh id, e.g. ``item_9f2c...``."""
    return f"{kind}_{secrets.token_hex(12)}"


def event(name: str, **fields: Any) -> Event:
    """A server event with its own id."""
    return {"type": name, "event_id": new_id("event"), **fields}


def error_event(error: E3RGError, cause: object = None) -> Event:
    """An ``error`` event; the session goes on.

    Args:
        error: what is wrong.
        cause: ``event_id`` of the client's event, if it gave one.
    """
    named = cause[:512] if isinstance(cause, str) else None
    return event("error", error={**error.to_json()["error"], "event_id": named})
