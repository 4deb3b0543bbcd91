"""Keeps other people's web pages from using a listener that runs on the visitor's own machine."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from e3rg.errors import E3RGError
from e3rg.gateway.faults import answer

_SAFE = {"GET", "HEAD", "OPTIONS"}


class SameOrigin:
    """ASGI middleware: a browser's request that changes something must come from our own page.

    Browsers name the page in ``Origin`` (RFC 6454); other clients send none and are not asked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with ``origin_refused`` (403), or pass on."""
        if scope["type"] == "http" and scope["method"] not in _SAFE:
            headers = dict(scope["headers"])
            origin = headers.get(b"origin")
            host = headers.get(b"host", b"").decode("latin-1").lower()
            if origin is not None and _netloc(origin.decode("latin-1")) != host:
                error = E3RGError(
                    "origin_refused",
                    "a page of another site asked for this; open the listener's own page",
                    status=403,
                )
                await answer(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
