"""A streamed response that notices at once when its client leaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from e3rg.errors import E3RGError

T = TypeVar("T")

_SEND_S = 30.0
"""A client that takes nothing for so many seconds is as good as gone."""


class EventStream(Response):
    """Sends an async generator of bytes; closes it when the client disconnects.

    Starlette's own StreamingResponse notices a client that left only at its next send, and leaves
    the generator to the garbage collector; here the stages must stop at once.

    Args:
        body: what to send.
        media_type: Content-Type.
        headers: further headers.
        ping_s: a comment is sent after so many seconds of silence, so that proxies keep the
            connection.
    """

    def __init__(
        self,
        body: AsyncGenerator[bytes, None],
        media_type: str = "text/event-stream",
        headers: Mapping[str, str] | None = None,
        ping_s: float = 15.0,
    ) -> None:
        super().__init__(
            None,
            media_type=media_type,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})},
        )
        del self.headers["content-length"]
        self._body = body
        self._ping_s = ping_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the body ends or the client leaves."""
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not sending.done():
                sending.cancel()
                # The generator's clean-up is short: it only asks the turn to stop.
                with contextlib.suppress(asyncio.CancelledError):
                    await sending
        if sending.done() and not sending.cancelled():
            with contextlib.suppress(_GoneError):
                sending.result()

    async def _send(self, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        following: asyncio.Task[bytes] | None = None
        try:
            while True:
                following = following or asyncio.ensure_future(anext(self._body))
                done, _ = await asyncio.wait({following}, timeout=self._ping_s)
                if not done:
                    await _part(send, b": ping\n\n")
                    continue
                task, following = following, None
                try:
                    part = task.result()
                except StopAsyncIteration:
                    break
                await _part(send, part)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if following is not None:
                following.cancel()
                await asyncio.wait({following})
            await self._body.aclose()


async def until_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do work for a client, and stop it when the client leaves.

    Raises:
        E3RGError: ``client_closed`` (499), which nobody receives.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
    raise E3RGError("client_closed", "the client left before the answer", status=499)


async def begun(items: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """The same items, once the first is there: until then a refusal can have a status of its own.

    Raises:
        Exception: what comes in place of the first item.
    """
    try:
        first = [await anext(items)]
    except StopAsyncIteration:
        first = []
    except BaseException:
        await items.aclose()
        raise
    return _chain(first, items)


async def _chain(first: list[T], rest: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    async with aclosing(rest):
        for item in first:
            yield item
        async for item in rest:
            yield item


def sse_event(name: str, payload: Mapping[str, object]) -> bytes:
    """A named server-sent event
    (https://html.spec.whatwg.org/multipage/server-sent-events.html).
    """
    return f"event: {name}\ndata: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def typed_event(kind: str, **fields: object) -> bytes:
    """A server-sent event as most of OpenAI's are: its name is also the ``type`` in its data."""
    return sse_event(kind, {"type": kind, **fields})


class _GoneError(Exception):
    """The client left, or reads no more."""


async def _part(send: Send, body: bytes) -> None:
    try:
        async with asyncio.timeout(_SEND_S):
            await send({"type": "http.response.body", "body": body, "more_body": True})
    except (OSError, TimeoutError) as error:
        raise _GoneError from error


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
