"""The ``x-ratelimit-*`` headers, as OpenAI's API has them
(https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers).
"""

from __future__ import annotations

from collections.abc import Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from e3rg.admission.contracts import RateState
from e3rg.gateway.admitting import RateBox, rate_box


class RateHeaders:
    """ASGI middleware: tells a tenant, with each answer that cost a request, what it has left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the headers to the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        box = RateBox()
        rate_box.set(box)

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start" and box.state is not None:
                message["headers"] = [*message.get("headers", []), *rate_headers(box.state)]
            await send(message)

        await self._app(scope, receive, told)


def rate_headers(rate: RateState) -> Iterator[tuple[bytes, bytes]]:
    """A rate as headers; only what is limited is told."""
    kinds = {
        "requests": (rate.limit_requests, rate.remaining_requests, rate.reset_requests_s),
        "tokens": (rate.limit_tokens, rate.remaining_tokens, rate.reset_tokens_s),
    }
    for kind, (limit, remaining, reset) in kinds.items():
        if limit is not None and remaining is not None:
            yield f"x-ratelimit-limit-{kind}".encode(), str(limit).encode()
            yield f"x-ratelimit-remaining-{kind}".encode(), str(max(remaining, 0)).encode()
            yield f"x-ratelimit-reset-{kind}".encode(), _duration(reset).encode()


def _duration(seconds: float) -> str:
    """As OpenAI writes it: ``120ms``, ``1.5s``, ``6m0s``."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    if seconds < 60:
        return f"{round(seconds, 2):g}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s"
