"""Routes of the native protocol: /v1/turns."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from e3rg.errors import E3RGError
from e3rg.gateway import shapes, wire
from e3rg.gateway.access import principal
from e3rg.gateway.files import StoredFile
from e3rg.gateway.ids import new_id
from e3rg.gateway.openapi import fails, gives, takes
from e3rg.gateway.protocols import native
from e3rg.gateway.protocols.replay import TURN_HEADER as _ID
from e3rg.gateway.protocols.replay import replayed, stored
from e3rg.gateway.services import Services
from e3rg.gateway.streaming import EventStream, begun, until_gone
from e3rg.gateway.turns import Outcome
from e3rg.turn.events import TurnFailed

_REPLY = """\
The reply. With `stream` (the default) server-sent events, each with a name and a JSON object as its
data: `turn.created` first, then `transcript` (of sound), `emotion`, `memory`, `text.delta`,
`audio.chunk`, `video.segment` and `degraded` as they come, `usage`, and at the end exactly one
`turn.completed` or `error`. Lines that begin with a colon are pings. Without `stream`, one JSON
object (`format: json`) or one MP4 file (`format: mp4`)."""


def router(services: Services) -> APIRouter:
    """Make the routes."""
    routes = APIRouter(prefix="/v1/turns", tags=["turns"])
    limits = services.profile.turn

    @routes.post(
        "",
        response_class=Response,
        openapi_extra=takes(
            json=native.TurnBody,
            form=native.TurnBody,
            files={"audio": False, "video": False, "portrait": False},
            one_of=("text", "audio", "video"),
            bounds={
                "text": {"minLength": 1, "maxLength": limits.max_text_chars},
                "timeout": {"maximum": limits.timeout_s},
            },
        ),
        responses={
            **gives(
                shapes.Turn,
                events=shapes.EVENTS,
                binary=("video/mp4",),
                description=_REPLY,
                headers={_ID: "The turn's id."},
                links={
                    "get_turn": {"turn_id": f"$response.header.{_ID}"},
                    "get_turn_video": {"turn_id": f"$response.header.{_ID}"},
                },
            ),
        },
    )
    async def create_turn(request: Request) -> Response:
        """Say something to a listener, by text, voice or camera."""
        turn = new_id("turn")
        async with AsyncExitStack() as stack:
            asked = await native.read(request, services, stack)
            tenant = principal.current().tenant
            attempt = await services.idempotency.begin(request, tenant, asked.fingerprint, turn)
            if attempt is not None and not attempt.first:
                before = await replayed(services, attempt, asked.body, turn)
                if before is not None:
                    return before
            async with services.idempotency.kept(attempt):
                accepted = await native.accept(asked, services, turn)
        async with services.idempotency.kept(attempt):
            return await _answer(request, services, accepted)

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
            **gives(
                binary=("video/mp4",),
                status=206,
                description="The part that `Range` asked for (RFC 9110 section 14).",
            ),
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


async def _answer(request: Request, services: Services, accepted: native.Accepted) -> Response:
    try:
        if not accepted.body.stream:
            return await until_gone(request.receive, _whole(services, accepted))
        turn = services.runner.run(accepted.request, accepted.place)
        # The client may leave while its turn waits for room.
        first = await until_gone(request.receive, begun(turn))
        return EventStream(native.sse(first), headers={_ID: accepted.request.id})
    finally:
        accepted.place.release_unused()


async def _whole(services: Services, accepted: native.Accepted) -> Response:
    outcome = Outcome()
    turn = services.runner.run(accepted.request, accepted.place, outcome)
    async with aclosing(turn):
        async for event in turn:
            if isinstance(event, TurnFailed):
                raise event.error
    assert outcome.record is not None
    return stored(outcome.record, outcome.clip, accepted.body.format, outcome.fault)


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
