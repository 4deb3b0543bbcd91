"""Chat completions and their chunks as bytes.

A stream of a small model is a hundred chunks a second: what they have in common is written once
(https://platform.openai.com/docs/api-reference/chat-streaming).
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import Request

from e3rg.errors import E3RGError, internal_error
from e3rg.gateway.streaming import EventStream, begun, until_gone

log = logging.getLogger(__name__)

DONE = b"data: [DONE]\n\n"


def usage_json(prompt: int, completion: int) -> dict[str, Any]:
    """OpenAI's usage, in tokens."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def completion(
    model: str,
    message: dict[str, Any],
    reason: str,
    usage: dict[str, Any],
    extension: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A whole answer.

    Args:
        model: its true name.
        message: the assistant's message.
        reason: why it ended.
        usage: see ``usage_json``.
        extension: what goes beyond OpenAI's API.
    """
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    answer = {**_head(model, "chat.completion"), "choices": [choice], "usage": usage}
    return answer if extension is None else {**answer, "e3rg": extension}


class Chunks:
    """Writes the events of one stream.

    Args:
        model: its true name.
        include_usage: the stream ends with its usage; until then it is null.
    """

    def __init__(self, model: str, include_usage: bool) -> None:
        self._include_usage = include_usage
        self._common = _head(model, "chat.completion.chunk")
        head = json.dumps(self._common)[:-1]
        self._head = f'data: {head}, "choices": [{{"index": 0, "delta": '
        self._usage = ', "usage": null' if include_usage else ""
        self._tail = f', "logprobs": null, "finish_reason": null}}]{self._usage}}}\n\n'

    def text(self, text: str) -> bytes:
        """The next words."""
        return f'{self._head}{{"content": {json.dumps(text)}}}{self._tail}'.encode("ascii")

    def delta(self, delta: dict[str, Any]) -> bytes:
        """Anything else that is new."""
        return f"{self._head}{json.dumps(delta)}{self._tail}".encode("ascii")

    def end(
        self, reason: str, usage: dict[str, Any], extension: dict[str, Any] | None = None
    ) -> bytes:
        """The end of the stream; the last chunk carries the extension."""
        extra = "" if extension is None else f', "e3rg": {json.dumps(extension)}'
        last = "" if self._include_usage else extra
        finish = f'"finish_reason": "{reason}"}}]{self._usage}{last}}}\n\n'
        events = f'{self._head}{{}}, "logprobs": null, {finish}'
        if self._include_usage:
            head = json.dumps({**self._common, "choices": [], "usage": usage})[:-1]
            events += f"data: {head}{extra}}}\n\n"
        return events.encode("ascii") + DONE


async def started(request: Request, body: AsyncGenerator[bytes, None]) -> EventStream:
    """Answer with a stream once its first part is there: until then a failure has its own status.

    Raises:
        E3RGError: what the body raises before its first part.
    """

    return EventStream(_told(await until_gone(request.receive, begun(body)), request))


async def _told(body: AsyncGenerator[bytes, None], request: Request) -> AsyncGenerator[bytes, None]:
    """The stream; a failure is told in it, in the way that OpenAI's client understands."""
    async with aclosing(body):
        try:
            async for part in body:
                yield part
            return
        except E3RGError as error:
            failure = error
        except Exception as error:
            name = request.scope.get("state", {}).get("request_id", "the request")
            log.error("request %s failed", name, exc_info=error)
            failure = internal_error("request", name)
        yield f"data: {json.dumps(failure.to_json())}\n\n".encode("ascii")


def _head(model: str, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
    }
