"""Server events of the realtime API, and what they have in common.

https://platform.openai.com/docs/api-reference/realtime-server-events
"""

from __future__ import annotations

from typing import Any

from e3rg.errors import E3RGError
from e3rg.gateway.ids import new_id
from e3rg.turn.events import Usage

Event = dict[str, Any]
"""One event, ready for JSON."""


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


def usage_json(usage: Usage | None) -> dict[str, Any] | None:
    """The usage of a ``response.done``; sound is counted in seconds elsewhere, not in tokens."""
    if usage is None:
        return None
    return {
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "input_token_details": {
            "text_tokens": usage.prompt_tokens,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": 0,
        },
        "output_token_details": {"text_tokens": usage.completion_tokens, "audio_tokens": 0},
    }
