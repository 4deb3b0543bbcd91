"""HEAD and OPTIONS for every route; what 405 says of the methods (RFC 9110 sections 9, 15.5.6)."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ASKED = ("GET", "POST", "PUT", "PATCH", "DELETE")


def allowed(scope: Scope) -> list[str]:
    """The methods that a path has, by the application's routes; empty if there is no such path.

    A router names only those of the first route that fits, but one path can have several routes.
    """
    # A mount has changed the root of the path by the time that 405 is answered.
    scope = {**scope, "root_path": scope.get("app_root_path", scope.get("root_path", ""))}
    routes = scope["app"].router.routes
    found = []
    for method in _ASKED:
        asked = {**scope, "method": method}
        fitting = [route for route in routes if route.matches(asked)[0] is Match.FULL]
        # What is mounted are files.
        if fitting and (method == "GET" or not isinstance(fitting[0], Mount)):
            found.append(method)
    if found:
        found += ["HEAD", "OPTIONS"] if "GET" in found else ["OPTIONS"]
    return found


class Methods:
    """ASGI middleware: HEAD is a GET without its body, OPTIONS names the methods."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer OPTIONS, pass on everything else."""
        method = scope["method"] if scope["type"] == "http" else ""
        if method == "OPTIONS" and (methods := allowed(scope)):
            await Response(status_code=204, headers={"Allow": ", ".join(methods)})(
                scope, receive, send
            )
        elif method == "HEAD":
            await self._app({**scope, "method": "GET"}, receive, _headers_only(send))
        else:
            await self._app(scope, receive, send)


def _headers_only(send: Send) -> Send:
    ended = False

    async def sending(message: Message) -> None:
        nonlocal ended
        if message["type"] == "http.response.start":
            await send(message)
        elif not ended:
            ended = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return sending
