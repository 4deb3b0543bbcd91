"""One response: runs a turn and tells of it in the realtime API's events.

https://platform.openai.com/docs/api-reference/realtime-server-events/response
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Literal

from e3rg.emotions.types import Delivery
from e3rg.errors import E3RGError, internal_error
from e3rg.gateway import wire
from e3rg.gateway.ids import new_id
from e3rg.gateway.places import Place
from e3rg.gateway.realtime.events import Event, event, usage_json
from e3rg.gateway.realtime.hearing import not_understood, understood
from e3rg.gateway.realtime.items import Item, Part, Spoken
from e3rg.gateway.realtime.transport import Transport
from e3rg.gateway.realtime.wanted import Wanted
from e3rg.gateway.services import Services
from e3rg.gateway.turns import Outcome
from e3rg.turn import events
from e3rg.turn.request import Modality, TurnRequest

log = logging.getLogger(__name__)

CancelReason = Literal["turn_detected", "client_cancelled"]
Prepare = Callable[[], Awaitable[tuple[TurnRequest, Item | None]]]
Put = Callable[[Item], Awaitable[None]]
Status = Literal["in_progress", "completed", "cancelled", "failed", "incomplete"]


class Response:
    """A response in work, or one that has ended.

    Args:
        services: where turns run.
        transport: the way to the client.
        wanted: how it shall be.
        conversation: id of the conversation.
        prepare: makes the turn, once there is a place for it.
        put: puts the reply's item into the conversation, and tells of it, when it begins and when
            it is done; None where the reply does not belong to the conversation.

    Attributes:
        id: ``resp_...``.
        item: the reply, once it has begun.
        delivery: the listener's expression, once it is known.
        status: as in the API.
        cleared: what was not heard of it was taken back.
    """

    def __init__(
        self,
        services: Services,
        transport: Transport,
        wanted: Wanted,
        conversation: str,
        prepare: Prepare,
        put: Put | None,
    ) -> None:
        self.id = new_id("resp")
        self.item: Item | None = None
        self.delivery: Delivery | None = None
        self.status: Status = "in_progress"
        self.cleared = False
        self._services = services
        self._transport = transport
        self._wanted = wanted
        self._conversation = conversation if put is not None else None
        self._prepare = prepare
        self._put = put
        self._request: TurnRequest | None = None
        self._heard: Item | None = None
        self._outcome = Outcome()
        self._spoke = False
        self._usage: events.Usage | None = None
        self._finish_reason = "stop"
        self._timings: dict[str, float] = {}
        self._error: E3RGError | None = None
        self._reason: CancelReason | None = None
        self._begun = False
        self._ending = False
        self._task: asyncio.Task[None] | None = None

    def start(self, after: Response | None) -> None:
        """Begin; a response before it leaves the stages first."""
        self._task = asyncio.create_task(self._run(after), name=self.id)

    @property
    def running(self) -> bool:
        """Whether it has more to say."""
        return self._task is not None and not self._task.done() and not self._ending

    def stop(self, reason: CancelReason) -> None:
        """Stop it in every stage, if it is in work; ``ended`` tells when its last event is out.

        The transport was cleared before: nothing of it is played any more.
        """
        if self.running and self._task is not None and self._reason is None:
            self._reason = reason
            # A task that is cancelled before its first step would end without a word.
            if self._begun:
                self._task.cancel()

    async def ended(self) -> None:
        """Return when its last event is out."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """Stop it without a word."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def settled(self) -> None:
        """Return when no stage works for it and its turn is recorded."""
        await self.ended()
        if self._request is not None:
            await self._outcome.settled.wait()

    async def _run(self, after: Response | None) -> None:
        self._begun = True
        try:
            await self._transport.send(event("response.created", response=self.to_json()))
            if self._reason is not None:
                raise asyncio.CancelledError
            if after is not None:
                await after.settled()  # its place is free then
            await self._work()
        except asyncio.CancelledError:
            if self._reason is None:
                raise
            if self._task is not None:
                self._task.uncancel()
        except E3RGError as error:
            self._error = error
        except Exception as error:
            log.error("response %s failed", self.id, exc_info=error)
            self._error = internal_error("response", self.id)
        self._ending = True
        await self._end()

    async def _work(self) -> None:
        place = self._services.runner.take()
        try:
            self._request, self._heard = await self._prepare()
            await self._follow(self._request, place)
        finally:
            place.release_unused()

    async def _follow(self, request: TurnRequest, place: Place) -> None:
        turn = self._services.runner.run(request, place, self._outcome)
        async with aclosing(turn):
            async for step in turn:
                await self._tell(step)
        if self.item is None and self._error is None:
            await self._begin()  # an empty reply is a reply

    async def _tell(self, step: events.TurnEvent) -> None:
        match step:
            case events.TranscriptReady(transcript):
                await self._transcribed(transcript.text)
            case events.EmotionRecognized(emotion, delivery):
                self.delivery = delivery
                await self._extra("emotion", emotion=wire.emotion_json(emotion, delivery))
            case events.MemoryUsed(retrieval):
                await self._extra("memory", memory=wire.memory_json(retrieval))
            case events.TextDelta(text):
                await self._text(text)
            case events.AudioChunk():
                await self._audio(step)
            case events.VideoFrames():
                await self._transport.video(step)
            case events.Degraded(wanted, given, code, reason):
                await self._extra("degraded", wanted=wanted, given=given, code=code, message=reason)
            case events.UsageReported(usage):
                self._usage = usage
            case events.TurnCompleted(_, finish_reason, timings):
                self._finish_reason, self._timings = finish_reason, timings
            case events.TurnFailed(error):
                self._error = error
                await self._not_transcribed(error)

    async def _transcribed(self, text: str) -> None:
        if self._heard is None:
            return
        told = understood(self._heard, text)
        self._heard.forget_voices()
        if self._wanted.settings.audio.input.transcription is not None:
            await self._transport.send(told)

    async def _not_transcribed(self, error: E3RGError) -> None:
        # Sound without words stays out of later turns; after other failures it may be heard again.
        if self._heard is not None and self._heard.unheard and error.code == "no_speech":
            told = not_understood(self._heard, error)
            self._heard.forget_voices()
            await self._transport.send(told)

    async def _text(self, text: str) -> None:
        await self._begin()
        self._part.text += text
        name = "output_audio_transcript" if self._wanted.spoken else "output_text"
        await self._send(f"response.{name}.delta", content_index=0, delta=text)

    async def _audio(self, chunk: events.AudioChunk) -> None:
        await self._begin()
        assert self.item is not None
        if not self._spoke:
            self._spoke = True
            self.item.spoken = Spoken()
            await self._transport.begin(
                self.id,
                self.item.id,
                video=self._request is not None and self._request.reply_with is Modality.VIDEO,
                audio_format=self._wanted.format.type,
            )
        assert self.item.spoken is not None
        # Counted before it is sent: some of it may be heard before the sending ends.
        start = self.item.spoken.seconds
        self.item.spoken.add(chunk.text, chunk.audio.seconds)
        duration = round(chunk.audio.seconds, 6)
        await self._extra("spoken", text=chunk.text, start=round(start, 6), duration=duration)
        await self._transport.audio(chunk)

    async def _begin(self) -> None:
        if self.item is not None:
            return
        part = Part("output_audio" if self._wanted.spoken else "output_text")
        turn = self._request.id if self._request is not None else None
        item = Item(new_id("item"), "assistant", [], "in_progress", turn)
        self.item = item
        await self._send("response.output_item.added", item_id=None, item=item.to_json())
        if self._put is not None:
            await self._put(item)
        item.parts.append(part)
        await self._send("response.content_part.added", content_index=0, part=self._part_json())

    async def _end(self) -> None:
        if self._reason is not None:
            self.status = "cancelled"
        elif self._error is not None:
            self.status = "failed"
        else:
            self.status = "incomplete" if self._finish_reason == "length" else "completed"
        if self._spoke and self.status != "cancelled":
            await self._transport.finish()
        if self.item is not None:
            await self._end_item(self.item)
        if self._timings and self._request is not None:
            await self._extra("timings", timings=self._timings, turn=self._request.id)
        await self._transport.send(event("response.done", response=self.to_json()))

    async def _end_item(self, item: Item) -> None:
        item.status = "completed" if self.status == "completed" else "incomplete"
        if not item.parts:
            item.parts.append(Part("output_audio" if self._wanted.spoken else "output_text"))
        if self._reason is not None and item.spoken is not None:
            item.parts[0].text = item.spoken.until(self._transport.heard_s)
        elif self._reason is not None and self._wanted.spoken:
            item.parts[0].text = ""  # written but never spoken
        text = item.parts[0].text
        if self._wanted.spoken:
            await self._send("response.output_audio.done", content_index=0)
            await self._send(
                "response.output_audio_transcript.done", content_index=0, transcript=text
            )
        else:
            await self._send("response.output_text.done", content_index=0, text=text)
        await self._send("response.content_part.done", content_index=0, part=self._part_json())
        await self._send("response.output_item.done", item_id=None, item=item.to_json())
        if self._put is not None:
            await self._put(item)

    @property
    def _part(self) -> Part:
        assert self.item is not None
        return self.item.parts[0]

    def _part_json(self) -> dict[str, Any]:
        text = self._part.text
        if self._wanted.spoken:
            return {"type": "audio", "transcript": text}
        return {"type": "text", "text": text}

    async def _extra(self, name: str, **fields: Any) -> None:
        await self._transport.send(event(f"response.e3rg.{name}", response_id=self.id, **fields))

    async def _send(self, name: str, **fields: Any) -> None:
        assert self.item is not None
        about = {"response_id": self.id, "item_id": self.item.id, "output_index": 0, **fields}
        kept = {key: value for key, value in about.items() if value is not None}
        await self._transport.send(event(name, **kept))

    def to_json(self) -> Event:
        """The response object, without sound."""
        voice = self._wanted.voice if self._request is None else self._request.identity.voice
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": self.status,
            "status_details": self._details(),
            "output": [self.item.to_json()] if self.item is not None else [],
            "conversation_id": self._conversation,
            "output_modalities": ["audio"] if self._wanted.spoken else ["text"],
            "max_output_tokens": self._wanted.max_output_tokens,
            "audio": {"output": {"format": self._wanted.format.model_dump(), "voice": voice}},
            "metadata": self._wanted.params.metadata,
            "usage": usage_json(self._usage),
        }

    def _details(self) -> dict[str, Any] | None:
        if self.status == "cancelled":
            return {"type": "cancelled", "reason": self._reason}
        if self.status == "incomplete":
            return {"type": "incomplete", "reason": "max_output_tokens"}
        if self._error is None:
            return None
        fault = self._error.to_json()["error"]
        error = {key: fault[key] for key in ("type", "code", "message")}
        return {"type": "failed", "error": error}
