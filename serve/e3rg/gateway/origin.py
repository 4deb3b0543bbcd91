"""Keeps other people's web pages from using a listener that runs on the visitor's own machine."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from e3rg.errors import E3RGError
from e3rg.gateway.faults import answer

_SAFE = {"GET", "HEAD", "OPTIONS"}


class SameOrigin:
    """ASGI middleware: a browser's request that changes something must come from our own page.

    So must a WebSocket, which no browser keeps from other sites' pages by itself (RFC 6455,
    section 10.2). Browsers name the page in ``Origin`` (RFC 6454); other clients send none and are
    not asked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with ``origin_refused`` (403), or pass on."""
        changing = scope["type"] == "http" and scope["method"] not in _SAFE
        if changing or scope["type"] == "websocket":
            headers = dict(scope["headers"])
            origin = headers.get(b"origin")
            host = headers.get(b"host", b"").decode("latin-1").lower()
            if origin is not None and _netloc(origin.decode("latin-1")) != host:
                error = E3RGError(
                    "origin_refused",
                    "a page of another site asked for this; open the listener's own page",
                    status=403,
                )
                if changing:
                    await answer(error)(scope, receive, send)
                else:
                    await _deny(WebSocket(scope, receive, send), error)
                return
        await self._app(scope, receive, send)


async def _deny(websocket: WebSocket, error: E3RGError) -> None:
    """Refuse before the handshake, with an answer where the server can give one."""
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(answer(error))
    else:
        await websocket.close(1008, error.message)


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
