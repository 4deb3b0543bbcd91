"""How long an answer may take: the profile's limit, or less where the client asks for less."""

from __future__ import annotations

import math
import time
from contextvars import ContextVar

from starlette.types import ASGIApp, Receive, Scope, Send

from e3rg.config import TurnConfig
from e3rg.errors import E3RGError
from e3rg.gateway.faults import answer

HEADER = "X-Request-Timeout"
"""Seconds, as a decimal number."""

_due: ContextVar[float | None] = ContextVar("e3rg_request_due", default=None)


class TimeLimit:
    """ASGI middleware: reads ``X-Request-Timeout``; the time counts from the request's arrival.

    Args:
        app: the application.
        limits: the profile's, which no client can exceed.
    """

    def __init__(self, app: ASGIApp, limits: TurnConfig) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Keep the deadline for ``due``."""
        given = None
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(HEADER.lower().encode())
        if given is not None:
            try:
                seconds = _seconds(given)
                check_limit(seconds, self._limits, HEADER)
            except E3RGError as error:
                await answer(error)(scope, receive, send)
                return
            _due.set(time.time() + seconds)
        await self._app(scope, receive, send)


def due(limits: TurnConfig, seconds: float | None = None) -> float:
    """The deadline of what begins now: Unix time.

    Args:
        limits: the profile's.
        seconds: asked for in the body; the profile's limit if None.
    """
    latest = time.time() + (limits.timeout_s if seconds is None else seconds)
    asked = _due.get()
    return latest if asked is None else min(latest, asked)


def check_limit(seconds: float, limits: TurnConfig, param: str) -> None:
    """Refuse a time limit above the profile's.

    Raises:
        E3RGError: ``timeout_too_long``.
    """
    if seconds > limits.timeout_s:
        raise E3RGError(
            "timeout_too_long",
            f"{param} is {seconds:g} s; at most {limits.timeout_s:g} s are allowed",
            param=param,
        )


def _seconds(value: bytes) -> float:
    try:
        seconds = float(value.decode("ascii"))
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise E3RGError(
            "invalid_timeout",
            f"{HEADER} must be a number of seconds above 0, such as 30",
            param=HEADER,
        )
    return seconds
