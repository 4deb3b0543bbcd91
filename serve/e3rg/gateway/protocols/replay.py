"""Turns that have ended, as answers: at once, or again for a request that was sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Literal

from starlette.responses import JSONResponse, Response

from e3rg.errors import E3RGError
from e3rg.gateway import wire
from e3rg.gateway.encoding import encoded
from e3rg.gateway.files import StoredFile
from e3rg.gateway.idempotency import Attempt, in_progress
from e3rg.gateway.protocols.native import TurnBody
from e3rg.gateway.services import Services
from e3rg.gateway.streaming import EventStream, sse_event
from e3rg.media.remux import Fragmented, fragmented
from e3rg.records.turns import TurnRecord

TURN_HEADER = "X-E3RG-Turn"
REPLAYED_HEADER = "Idempotent-Replayed"


def stored(
    record: TurnRecord,
    clip: Path | None,
    form: Literal["json", "mp4"],
    fault: E3RGError | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A completed turn as one answer.

    Args:
        record: the turn.
        clip: its film, if it is kept.
        form: what is asked for.
        fault: why there is no film, if one should be there.
        headers: further headers.

    Raises:
        E3RGError: ``no_video`` (422), or the fault.
    """
    names = {TURN_HEADER: record.id, **(headers or {})}
    if form == "json":
        return JSONResponse(wire.turn_json(record, clip is not None), headers=names)
    if clip is None and fault is not None:
        raise fault
    missing = E3RGError(
        "no_video",
        f"the reply has no video; ask with format json, or see GET /v1/turns/{record.id}",
        param="format",
        status=422,
    )
    if clip is None:
        raise missing
    return StoredFile(clip, "video/mp4", missing, headers=names)


async def replayed(
    services: Services, attempt: Attempt, body: TurnBody, turn: str
) -> Response | None:
    """The answer to a request that was sent before.

    Args:
        services: the stores.
        attempt: the request before.
        body: how it wants its answer.
        turn: id of the turn that takes over, where the one before came to nothing.

    Returns:
        None if the caller is to run it: the turn before failed, was cancelled, or got lost.

    Raises:
        E3RGError: ``idempotency_in_progress`` (409).
    """
    record = await services.turns.get(attempt.row.target)
    if record is None and not services.idempotency.lost(attempt):
        raise in_progress()
    if record is None or record.status != "completed":
        await services.idempotency.retry(attempt, turn)
        return None
    path = services.clips.path(record.id)
    clip = path if await asyncio.to_thread(path.is_file) else None
    again = {REPLAYED_HEADER: "true"}
    if not body.stream:
        return stored(record, clip, body.format, headers=again)
    film = await asyncio.to_thread(fragmented, clip) if clip is not None else None
    return EventStream(_events(record, film), headers={TURN_HEADER: record.id, **again})


async def _events(record: TurnRecord, film: Fragmented | None) -> AsyncGenerator[bytes, None]:
    """A turn's stream once more, each thing in one piece; of sound alone nothing is kept."""
    told = wire.turn_json(record, film is not None)
    created = {
        "id": record.id,
        "conversation": record.conversation,
        "identity": record.identity,
    }
    yield sse_event("turn.created", created)
    if told["emotion"]:
        yield sse_event("emotion", told["emotion"])
    if told["memory"]:
        yield sse_event("memory", told["memory"])
    yield sse_event("text.delta", {"text": record.reply})
    for degraded in record.detail["degraded"]:
        yield sse_event("degraded", _wire(degraded))
    if film is not None:
        segment = {"start": 0.0, "frames": film.frames, "mime": film.mime_type}
        yield sse_event("video.segment", {**segment, "data": encoded(film.data)})
    elif told["usage"]["audio_seconds_out"]:
        lost = {"wanted": "audio", "given": "text", "code": "not_kept"}
        reason = "the sound of this reply is not kept; ask anew for a new reply"
        yield sse_event("degraded", {**lost, "message": reason})
    yield sse_event("usage", told["usage"])
    ended = {
        "text": record.reply,
        "finish_reason": record.detail.get("finish_reason", "stop"),
        "timings": told["timings"],
    }
    yield sse_event("turn.completed", ended)


def _wire(degraded: Mapping[str, str]) -> dict[str, str]:
    return {("message" if name == "reason" else name): text for name, text in degraded.items()}
