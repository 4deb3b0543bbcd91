"""Every failure as an answer of one shape, with a request id and never a stack trace."""

from __future__ import annotations

import logging
import math
import re
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from e3rg.errors import E3RGError, internal_error
from e3rg.gateway.ids import new_id
from e3rg.gateway.methods import allowed

log = logging.getLogger(__name__)

_RETRY_S = 5.0
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")


class RequestId:
    """ASGI middleware: gives each request an id, and an answer to whatever was not handled.

    The id is the caller's own if it sends a sane one.

    Args:
        app: the application.
        answered: False where something in front (Ray Serve's proxy) names the id in the answer.
    """

    def __init__(self, app: ASGIApp, answered: bool = True) -> None:
        self._app = app
        self._answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add ``X-Request-Id`` to the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        name = given if _REQUEST_ID.fullmatch(given) else new_id("req").encode()
        scope.setdefault("state", {})["request_id"] = name.decode()

        started = False

        async def named(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            if message["type"] == "http.response.start" and self._answered:
                message["headers"] = [*message.get("headers", []), (b"x-request-id", name)]
            await send(message)

        try:
            await self._app(scope, receive, named)
        except Exception as error:
            log.error("request %s failed", name.decode(), exc_info=error)
            if started:
                raise  # the answer cannot be taken back; the server closes the connection
            await answer(internal_error("request", name.decode()))(scope, receive, named)


def answer(error: E3RGError) -> JSONResponse:
    """An error as a response."""
    headers = {}
    if error.retry_after is not None or error.status in {429, 503}:
        headers["Retry-After"] = str(math.ceil(error.retry_after or _RETRY_S))
    return JSONResponse(error.to_json(), status_code=error.status, headers=headers)


def install(app: FastAPI) -> None:
    """Handle the exceptions that routes raise on purpose; RequestId answers the others."""

    @app.exception_handler(E3RGError)
    async def known(request: Request, error: E3RGError) -> JSONResponse:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        fault = error.errors()[0]
        param = ".".join(str(part) for part in fault["loc"][1:]) or None
        return answer(E3RGError("invalid_type", f"{param}: {fault['msg']}", param=param))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        code = HTTPStatus(error.status_code).name.lower()
        message = f"{request.method} {request.url.path}: {error.detail}"
        response = answer(E3RGError(code, message, status=error.status_code))
        response.headers.update(error.headers or {})
        if error.status_code == 405:
            response.headers["Allow"] = ", ".join(allowed(request.scope))
        return response
