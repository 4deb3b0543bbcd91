"""A streamed response that notices at once when its client leaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


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
            with contextlib.suppress(OSError):  # the client left between two sends
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


async def _part(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
