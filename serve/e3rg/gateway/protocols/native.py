"""The native protocol: POST /v1/turns as JSON or multipart, answered by SSE, JSON or MP4."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import Request
from pydantic import ConfigDict, Field
from starlette.datastructures import UploadFile

from e3rg.deadline import bounded
from e3rg.emotions.table import ListenerPolicy
from e3rg.errors import E3RGError
from e3rg.gateway import wire
from e3rg.gateway.bodies import Id, Seed, Strict, User, parse
from e3rg.gateway.conversation import resume
from e3rg.gateway.encoding import encoded
from e3rg.gateway.idempotency import fingerprint
from e3rg.gateway.intake import clean_text
from e3rg.gateway.new_turn import new_turn
from e3rg.gateway.places import Place
from e3rg.gateway.services import Services
from e3rg.gateway.streaming import sse_event
from e3rg.gateway.time_limit import check_limit, due
from e3rg.gateway.uploads import is_form, read_body, refuse_other_files, saved
from e3rg.media.mux import FragmentedMp4Muxer
from e3rg.media.types import Clip
from e3rg.stages.avatar.engine import FPS
from e3rg.turn import events
from e3rg.turn.request import Modality, TurnRequest


class TurnBody(Strict):
    """What a client sends; in multipart the same fields are form fields.

    ``audio``, ``video`` and ``portrait`` are files and come by multipart only.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "I lost my dog yesterday."}]},
    )

    text: str | None = Field(default=None, description="what the speaker says")
    identity: Id | None = Field(default=None, description="who listens, see /v1/identities")
    conversation: Id | None = Field(default=None, description="goes on with earlier turns")
    user: User | None = Field(
        default=None, description="who speaks: gives access to this user's own memory"
    )
    reply_with: Modality = Field(default=Modality.VIDEO, description="text, audio or video")
    stream: bool = Field(default=True, description="SSE; otherwise one answer")
    format: Literal["json", "mp4"] = Field(default="json", description="of the one answer")
    policy: ListenerPolicy = ListenerPolicy.EMPATHISE
    seed: Seed | None = None
    max_tokens: Annotated[int, Field(ge=1, le=4096)] | None = None
    degrade: Literal["allow", "never"] = "allow"
    timeout: Annotated[float, Field(gt=0, le=600)] | None = Field(
        default=None, description="seconds; the turn ends by then"
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was read; its files are open as long as the stack that it was read with."""

    body: TurnBody
    files: dict[str, UploadFile]

    async def fingerprint(self) -> str:
        """What is asked for, in one word."""
        return await fingerprint(self.body.model_dump_json(), self.files)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request that was checked and decoded, and the place that it holds."""

    body: TurnBody
    request: TurnRequest
    place: Place


async def read(request: Request, services: Services, stack: AsyncExitStack) -> Asked:
    """Read a request's fields and files.

    Raises:
        E3RGError: naming the field and the fix.
    """
    limits = services.profile.turn
    fields, files = await read_body(request, stack, limits.max_upload_bytes)
    refuse_other_files(files, "audio", "video", "portrait")
    body = parse(TurnBody, fields, strict=not is_form(request))
    if body.timeout is not None:
        check_limit(body.timeout, limits, "timeout")
    return Asked(body, files)


async def accept(asked: Asked, services: Services, turn: str) -> Accepted:
    """Check and decode a request; nothing of an upload is left on disk afterwards.

    The place is taken before anything costly is done, and the deadline counts from here.

    Args:
        asked: the request.
        services: the gateway's parts.
        turn: the id that it gets.

    Raises:
        E3RGError: naming the field and the fix.
    """
    deadline = due(services.profile.turn, asked.body.timeout)
    place = services.runner.take()
    try:
        async with bounded(deadline):
            resolved = await _resolve(asked.body, asked.files, services, deadline)
            return Accepted(asked.body, replace(resolved, id=turn), place)
    except BaseException:
        place.release()
        raise


async def _resolve(
    body: TurnBody, files: dict[str, UploadFile], services: Services, deadline: float
) -> TurnRequest:
    limits = services.profile.turn
    if "audio" in files and "video" in files:
        raise E3RGError(
            "too_many_media",
            "send audio or video, not both; a video has its own sound",
            param="video",
        )
    text = None
    if body.text is not None:
        text = clean_text(body.text, limits.max_text_chars, limits.languages)
    clip = await _decode(files, services)
    if text is None and (clip is None or clip.audio is None):
        raise _nothing_said(clip)
    resumed = await resume(services, body.conversation, body.user, body.identity)
    identity = resumed.identity
    if "portrait" in files:
        portrait = await services.accept_portrait(await files["portrait"].read())
        identity = replace(identity, portrait=portrait)
    turn = new_turn(
        limits,
        identity,
        conversation=body.conversation,
        deadline=deadline,
        seed=body.seed,
        max_tokens=body.max_tokens,
    )
    return replace(
        turn,
        text=text,
        audio=clip.audio if clip else None,
        frames=clip.frames if clip else (),
        history=resumed.history,
        user=body.user,
        reply_with=body.reply_with,
        policy=body.policy,
        previous=resumed.delivery,
        may_degrade=body.degrade == "allow",
    )


def _nothing_said(clip: Clip | None) -> E3RGError:
    if clip is None:
        return E3RGError(
            "input_missing",
            "send text, audio or video: there is nothing to answer",
            param="text",
        )
    return E3RGError(
        "video_no_sound",
        "the video has no sound and there is no text; send text with it, or a video with sound",
        param="video",
        status=422,
    )


async def _decode(files: dict[str, UploadFile], services: Services) -> Clip | None:
    for kind in ("audio", "video"):
        if kind in files:
            async with saved(files[kind]) as path:
                return await services.decode(path, kind)
    return None


async def sse(turn: AsyncGenerator[events.TurnEvent, None]) -> AsyncGenerator[bytes, None]:
    """A turn as server-sent events.

    The ``data`` of all ``video.segment`` events joined is one fragmented MP4 file.
    """
    encoder = _SseEncoder()
    async with aclosing(turn):
        async for event in turn:
            for name, payload in encoder.encode(event):
                yield sse_event(name, payload)


class _SseEncoder:
    """Turns events into named JSON payloads; holds the turn's muxer."""

    def __init__(self) -> None:
        self._muxer: FragmentedMp4Muxer | None = None

    def encode(self, event: events.TurnEvent) -> list[tuple[str, Mapping[str, object]]]:
        payload: Mapping[str, object]
        match event:
            case events.TurnCreated(turn, conversation, identity):
                payload = {"id": turn, "conversation": conversation, "identity": identity}
                return [("turn.created", payload)]
            case events.TranscriptReady(transcript):
                return [("transcript", wire.transcript_json(transcript))]
            case events.EmotionRecognized(emotion, delivery):
                return [("emotion", wire.emotion_json(emotion, delivery))]
            case events.MemoryUsed(retrieval):
                return [("memory", wire.memory_json(retrieval))]
            case events.TextDelta(text):
                return [("text.delta", {"text": text})]
            case events.AudioChunk():
                return [("audio.chunk", _audio_json(event))]
            case events.VideoFrames():
                return self._video(event)
            case events.Degraded(wanted, given, code, reason):
                payload = {"wanted": wanted, "given": given, "code": code, "message": reason}
                return [("degraded", payload)]
            case events.UsageReported(usage):
                return [*self._end(), ("usage", wire.usage_json(usage))]
            case events.TurnCompleted(text, finish_reason, timings):
                payload = {"text": text, "finish_reason": finish_reason, "timings": timings}
                return [("turn.completed", payload)]
            case events.TurnFailed(error):
                return [*self._end(), ("error", error.to_json())]

    def _video(self, event: events.VideoFrames) -> list[tuple[str, Mapping[str, object]]]:
        self._muxer = self._muxer or FragmentedMp4Muxer(sample_rate=event.audio.sample_rate)
        data = self._muxer.write(event.packets, event.audio)
        return self._segment(data, event.first_frame, len(event.packets))

    def _end(self) -> list[tuple[str, Mapping[str, object]]]:
        if self._muxer is None:
            return []
        data = self._muxer.finish()
        return self._segment(data, None, 0) if data else []

    def _segment(
        self, data: bytes, first_frame: int | None, frames: int
    ) -> list[tuple[str, Mapping[str, object]]]:
        assert self._muxer is not None
        start = None if first_frame is None else first_frame / FPS
        payload = {
            "start": start,
            "frames": frames,
            "mime": self._muxer.mime_type,
            "data": encoded(data),
        }
        return [("video.segment", payload)]


def _audio_json(chunk: events.AudioChunk) -> dict[str, Any]:
    return {
        "text": chunk.text,
        "start": round(chunk.first_sample / chunk.audio.sample_rate, 6),
        "duration": round(chunk.audio.seconds, 6),
        "format": "pcm16",
        "sample_rate": chunk.audio.sample_rate,
        "data": encoded(chunk.audio.data),
    }
