"""The one way in: no route is reached but through here."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from e3rg.gateway.access import principal
from e3rg.tenancy import Principal


class Access:
    """ASGI middleware: says who asks.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what comes; on an open system everybody is the one tenant."""
        if scope["type"] in {"http", "websocket"}:
            principal.adopt(Principal())
        await self._app(scope, receive, send)
