"""The ingress as a FastAPI application; it knows engines only through their Protocols."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import prometheus_client
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles

from e3rg import __version__
from e3rg.errors import E3RGError
from e3rg.gateway import faults, identities, wire
from e3rg.gateway.health import Health
from e3rg.gateway.origin import SameOrigin
from e3rg.gateway.protocols import native
from e3rg.gateway.protocols.openai import (
    chat,
    embeddings,
    models,
    speech,
    transcriptions,
    videos,
)
from e3rg.gateway.realtime import routes as realtime
from e3rg.gateway.services import Services
from e3rg.gateway.streaming import EventStream, until_gone
from e3rg.gateway.turns import Outcome
from e3rg.gateway.uploads import MAX_JSON_BYTES, BodyLimit
from e3rg.gateway.webrtc import routes as webrtc
from e3rg.telemetry.metrics import REGISTRY
from e3rg.turn.events import TurnEvent, TurnFailed

_PAGE = Path(__file__).parent / "page"
# The page loads nothing from elsewhere; blob: is the MediaSource of the video element.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def build_app(services: Services, *, proxied: bool = False) -> FastAPI:
    """Make the application.

    Args:
        services: the gateway's parts; closed with the application.
        proxied: it runs behind Ray Serve's proxy, which names request ids in answers.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        yield
        await services.close()

    app = FastAPI(title="E3RG Serve", version=__version__, lifespan=lifespan)
    faults.install(app)
    limit = services.profile.turn.max_upload_bytes + MAX_JSON_BYTES
    app.add_middleware(BodyLimit, limit=limit)
    app.add_middleware(SameOrigin)
    app.add_middleware(faults.RequestId, answered=not proxied)
    _add_turns(app, services)
    app.include_router(identities.router(services))
    for part in (chat, models, embeddings, speech, transcriptions, videos, realtime, webrtc):
        app.include_router(part.router(services))
    _add_operations(app, Health(services))
    _add_page(app)
    return app


def _add_turns(app: FastAPI, services: Services) -> None:
    @app.post("/v1/turns", response_model=None)
    async def create_turn(request: Request) -> Response:
        """Say something to the listener; the reply is streamed as server-sent events."""
        accepted = await native.read_turn(request, services)
        try:
            if not accepted.body.stream:
                return await until_gone(request.receive, _whole(services, accepted))
            turn = services.runner.run(accepted.request, accepted.place)
            return EventStream(native.sse(_chain(await anext(turn), turn)))
        finally:
            accepted.place.release_unused()

    @app.get("/v1/turns/{turn_id}")
    async def get_turn(turn_id: str) -> dict[str, Any]:
        """A turn that has ended."""
        return await _turn(services, turn_id)

    @app.get("/v1/turns/{turn_id}/video", response_class=FileResponse)
    async def get_video(turn_id: str) -> FileResponse:
        """A finished reply as MP4."""
        await _turn(services, turn_id)
        path = services.clips.path(turn_id)
        if not path.is_file():
            raise E3RGError(
                "no_video",
                f"turn {turn_id} has no video: it had none, or it was too old to keep",
                param="turn_id",
                status=404,
            )
        return FileResponse(path, media_type="video/mp4")


async def _chain(
    first: TurnEvent, rest: AsyncGenerator[TurnEvent, None]
) -> AsyncGenerator[TurnEvent, None]:
    async with aclosing(rest):
        yield first
        async for event in rest:
            yield event


async def _whole(services: Services, accepted: native.Accepted) -> Response:
    outcome = Outcome()
    turn = services.runner.run(accepted.request, accepted.place, outcome)
    async with aclosing(turn):
        async for event in turn:
            if isinstance(event, TurnFailed):
                raise event.error
    assert outcome.record is not None
    if accepted.body.format == "json":
        return JSONResponse(wire.turn_json(outcome.record, outcome.clip is not None))
    if outcome.clip is not None:
        name = {"X-E3RG-Turn": accepted.request.id}
        return FileResponse(outcome.clip, media_type="video/mp4", headers=name)
    if outcome.fault is not None:
        raise outcome.fault
    raise E3RGError(
        "no_video",
        f"the reply has no video; ask with format json, or see GET /v1/turns/{accepted.request.id}",
        param="format",
        status=422,
    )


async def _turn(services: Services, turn_id: str) -> dict[str, Any]:
    record = await services.turns.get(turn_id)
    if record is None:
        raise E3RGError(
            "unknown_turn",
            f"there is no finished turn {turn_id[:64]!r}; use the id of a turn.created event",
            param="turn_id",
            status=404,
        )
    return wire.turn_json(record, services.clips.path(record.id).is_file())


def _add_operations(app: FastAPI, health: Health) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process lives."""
        return {"status": "ok"}

    @app.get("/readyz", response_model=None)
    async def readyz() -> Response:
        """A real turn can be served: every stage answers."""
        report = await health.check()
        return JSONResponse(report.to_json(), status_code=200 if report.ready else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        """Prometheus metrics."""
        return Response(
            prometheus_client.generate_latest(REGISTRY),
            media_type=prometheus_client.CONTENT_TYPE_LATEST,
        )


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(
            _PAGE / "index.html",
            headers={"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"},
        )

    app.mount("/page", StaticFiles(directory=_PAGE), name="page")
