"""Routes for whoever runs the server; readiness is green only while a real turn can be served."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import prometheus_client
from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from e3rg.emotions.types import Delivery, Expression
from e3rg.errors import E3RGError
from e3rg.gateway import shapes
from e3rg.gateway.openapi import gives
from e3rg.gateway.services import Services
from e3rg.messages import Message
from e3rg.stages.dialogue.engine import DialogueRequest
from e3rg.stages.memory.engine import MemoryQuery
from e3rg.stages.speech.engine import SpeechRequest
from e3rg.stages.understanding.engine import Utterance
from e3rg.telemetry.metrics import REGISTRY

log = logging.getLogger(__name__)

_TIMEOUT_S = 20.0
_FRESH_S = 15.0


@dataclass(frozen=True, slots=True)
class Report:
    """One check of all stages; a stage's value is ``ok`` or what is wrong with it."""

    stages: dict[str, str]

    @property
    def ready(self) -> bool:
        """Whether every stage answered."""
        return all(state == "ok" for state in self.stages.values())

    def to_json(self) -> shapes.Readiness:
        """The body of /readyz."""
        return {"status": "ready" if self.ready else "not_ready", "stages": self.stages}


class Health:
    """Asks each stage for a small piece of its real work, at most once in a while.

    A stage that is too busy to be asked is working, and counts as well.

    Args:
        services: the gateway's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._report: Report | None = None
        self._checked = 0.0
        self._lock = asyncio.Lock()

    async def check(self) -> Report:
        """A report that is at most a few seconds old."""
        async with self._lock:
            now = time.monotonic()
            if self._report is None or now - self._checked > _FRESH_S:
                self._report = await self._measure()
                self._checked = time.monotonic()
            return self._report

    async def _measure(self) -> Report:
        stages = self._services.stages
        listener = await asyncio.to_thread(self._services.identities.default)
        calm = Delivery(Expression.NEUTRAL, 0.0)
        checks: dict[str, Awaitable[Any]] = {
            "understanding": stages.understanding.recognize(Utterance("Hello.")),
            "memory": stages.memory.retrieve(MemoryQuery("Hello.", exemplars=1)),
            "dialogue": self._write(),
            "speech": stages.speech.synthesize(SpeechRequest("Yes.", listener.voice, calm)),
            "avatar": stages.avatar.still(listener.portrait, calm),
            "records": self._services.turns.get("none"),
        }
        states = await asyncio.gather(*map(_state, checks.values()))
        return Report(dict(zip(checks, states, strict=True)))

    async def _write(self) -> None:
        request = DialogueRequest((Message("user", "Hello."),), max_tokens=1)
        async with aclosing(self._services.stages.dialogue.stream(request)) as deltas:
            async for _ in deltas:
                pass


async def _state(check: Awaitable[Any]) -> str:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await check
    except TimeoutError:
        return f"no answer within {_TIMEOUT_S:.0f} s"
    except E3RGError as error:
        busy = error.code == "overloaded" or error.code.endswith("_busy")
        return "ok" if busy else error.code
    except Exception as error:
        log.error("a health check failed", exc_info=error)
        return "failed"
    return "ok"


def router(services: Services) -> APIRouter:
    """Make the routes."""
    routes = APIRouter(tags=["operations"])
    health = Health(services)

    @routes.get("/healthz", response_class=Response, responses=gives(shapes.Alive))
    async def healthz() -> Response:
        """The process lives."""
        return JSONResponse({"status": "ok"})

    @routes.get(
        "/readyz",
        response_class=Response,
        responses={
            **gives(shapes.Readiness, description="Every stage answers."),
            **gives(shapes.Readiness, status=503, description="A stage does not answer."),
        },
    )
    async def readyz() -> Response:
        """A real turn can be served: every stage did a small piece of real work."""
        report = await health.check()
        return JSONResponse(report.to_json(), status_code=200 if report.ready else 503)

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {"description": "Done.", "content": {"text/plain": {"schema": {"type": "string"}}}}
        },
    )
    async def metrics() -> Response:
        """Prometheus metrics."""
        return Response(
            prometheus_client.generate_latest(REGISTRY),
            media_type=prometheus_client.CONTENT_TYPE_LATEST,
        )

    return routes
