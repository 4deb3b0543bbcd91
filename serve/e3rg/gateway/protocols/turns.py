"""Routes of the native protocol: /v1/turns."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from e3rg.errors import E3RGError
from e3rg.gateway import shapes, wire
from e3rg.gateway.files import StoredFile
from e3rg.gateway.openapi import fails, gives, takes
from e3rg.gateway.protocols import native
from e3rg.gateway.services import Services
from e3rg.gateway.streaming import EventStream, until_gone
from e3rg.gateway.turns import Outcome
from e3rg.turn.events import TurnEvent, TurnFailed

_STREAM = """\
With `stream` (the default), server-sent events, each with a name and a JSON object:
`turn.created` (`TurnCreated`), `transcript` (`Transcript`), `emotion` (`Emotion`),
`memory` (`Memory`), `text.delta` (`TextDelta`), `audio.chunk` (`AudioChunk`),
`video.segment` (`VideoSegment`), `degraded` (`Degraded`), `usage` (`Usage`), and at the end
exactly one `turn.completed` (`TurnCompleted`) or `error` (`Error`).
Lines that begin with a colon are pings."""


def router(services: Services) -> APIRouter:
    """Make the routes."""
    routes = APIRouter(prefix="/v1/turns", tags=["turns"])

    @routes.post(
        "",
        response_class=Response,
        openapi_extra=takes(
            json=native.TurnBody,
            form=native.TurnBody,
            files={"audio": False, "video": False, "portrait": False},
            one_of=("text", "audio", "video"),
        ),
        responses=gives(
            shapes.Turn,
            events=_STREAM,
            binary=("video/mp4",),
            description="The reply: streamed, or as one JSON object, or as one MP4 file.",
        ),
    )
    async def create_turn(request: Request) -> Response:
        """Say something to a listener, by text, voice or camera."""
        accepted = await native.read_turn(request, services)
        try:
            if not accepted.body.stream:
                return await until_gone(request.receive, _whole(services, accepted))
            turn = services.runner.run(accepted.request, accepted.place)
            return EventStream(native.sse(_chain(await anext(turn), turn)))
        finally:
            accepted.place.release_unused()

    @routes.get(
        "/{turn_id}",
        response_class=Response,
        responses={**gives(shapes.Turn, description="The turn."), **fails(503)},
    )
    async def get_turn(turn_id: str) -> Response:
        """A turn that has ended."""
        return JSONResponse(await _turn(services, turn_id))

    @routes.get(
        "/{turn_id}/video",
        response_class=Response,
        responses={
            **gives(binary=("video/mp4",), description="25 fps, H.264 and AAC."),
            206: {
                "description": "The part that `Range` asked for (RFC 9110 section 14).",
                "content": {"video/mp4": {"schema": {"type": "string", "format": "binary"}}},
            },
            **fails(416, 503),
        },
    )
    async def get_turn_video(turn_id: str) -> StoredFile:
        """A finished reply as MP4."""
        await _turn(services, turn_id)
        missing = E3RGError(
            "no_video",
            f"turn {turn_id} has no video: it had none, or it was too old to keep",
            param="turn_id",
            status=404,
        )
        return StoredFile(services.clips.path(turn_id), "video/mp4", missing)

    return routes


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


async def _turn(services: Services, turn_id: str) -> shapes.Turn:
    record = await services.turns.get(turn_id)
    if record is None:
        raise E3RGError(
            "unknown_turn",
            f"there is no finished turn {turn_id[:64]!r}; use the id of a turn.created event",
            param="turn_id",
            status=404,
        )
    return wire.turn_json(record, services.clips.path(record.id).is_file())
