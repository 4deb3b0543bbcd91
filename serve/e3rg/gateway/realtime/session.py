"""A realtime session: one conversation over one connection, whatever carries it.

https://platform.openai.com/docs/guides/realtime-conversations
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from e3rg.errors import E3RGError, internal_error
from e3rg.gateway.bodies import voice_name
from e3rg.gateway.catalog import Model
from e3rg.gateway.ids import new_id
from e3rg.gateway.realtime.config import ResponseParams, response_params
from e3rg.gateway.realtime.events import Event, error_event, event
from e3rg.gateway.realtime.floor import Floor
from e3rg.gateway.realtime.incoming import MAX_STILLS, read_audio, read_item, read_still
from e3rg.gateway.realtime.items import Item, Part
from e3rg.gateway.realtime.speech_input import SpeechInput, Started, Stopped
from e3rg.gateway.realtime.state import SessionState
from e3rg.gateway.realtime.transport import Transport
from e3rg.gateway.services import Services
from e3rg.gateway.voices import find_voice
from e3rg.media.types import Pcm

log = logging.getLogger(__name__)

SESSION_S = 3600.0
"""A session's longest life, as OpenAI's."""
IDLE_S = 900.0
"""A session in which nothing happens ends after so long."""
_TICK_S = 0.5
_AT_ONCE_S = 0.5
"""Longer pieces of sound are listened to in a thread."""

Handler = Callable[["RealtimeSession", Event], Awaitable[None]]


class RealtimeSession:
    """One conversation over one connection.

    The owner calls ``run`` once, ``receive`` for each client event and, where the speaker's sound
    comes over a media track, ``hear`` for each piece of it; ``close`` when the connection ends.

    Args:
        services: the gateway's parts.
        transport: the way to the client.
        model: the listener.
        video: whether replies have pictures unless ``session.e3rg.video`` says otherwise.
    """

    def __init__(
        self, services: Services, transport: Transport, model: Model, *, video: bool = False
    ) -> None:
        self.id = new_id("sess")
        self._services = services
        self._transport = transport
        self._state = SessionState(services, model, video=video)
        self._floor = Floor(services, transport)
        self._lock = asyncio.Lock()
        self._expires = time.time() + SESSION_S
        self._active = time.monotonic()
        self._closed = asyncio.Event()
        self._greeted = asyncio.Event()
        self._input = SpeechInput(services.vad, services.profile.turn.max_audio_s)
        self._speech_item: str | None = None
        self._prompted = False

    async def run(self, session: dict[str, Any] | None = None) -> None:
        """Greet the client, and return when the session has ended.

        Args:
            session: a first ``session.update``'s session, if one came with the connection.

        Raises:
            E3RGError: if that session cannot be had; nothing was sent then.
        """
        await self._change({"type": "realtime", **(session or {})})
        await self._transport.send(event("session.created", session=self._session_json()))
        self._greeted.set()
        while not self._closed.is_set():
            left = min(self._expires - time.time(), self._active + IDLE_S - time.monotonic())
            if left <= 0:
                await self._expire()
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, _TICK_S)):
                    await self._closed.wait()
            await self._prompt()

    async def receive(self, message: Any) -> None:
        """Take one client event; whatever is wrong with it is told as an ``error`` event."""
        await self._greeted.wait()
        self._active = time.monotonic()
        cause = message.get("event_id") if isinstance(message, dict) else None
        try:
            if not isinstance(message, dict) or not isinstance(message.get("type"), str):
                raise E3RGError(
                    "invalid_event", "an event is a JSON object with a type", param="type"
                )
            handler = _HANDLERS.get(message["type"])
            if handler is None:
                raise E3RGError(
                    "unknown_event_type",
                    f"there is no client event {message['type'][:64]!r}; use one of "
                    f"{', '.join(_HANDLERS)}",
                    param="type",
                )
            async with self._lock:
                if not self._closed.is_set():
                    await handler(self, message)
        except E3RGError as error:
            await self._transport.send(error_event(error, cause))
        except Exception as error:
            log.error("event of session %s failed", self.id, exc_info=error)
            await self._transport.send(error_event(internal_error("event", self.id), cause))

    async def hear(self, pcm: Pcm) -> None:
        """Take sound from a media track: 16-bit mono at any rate, like input_audio_buffer.append.

        Faults are told as ``error`` events.
        """
        await self._greeted.wait()
        try:
            async with self._lock:
                if not self._closed.is_set():
                    await self._hear(pcm)
        except E3RGError as error:
            await self._transport.send(error_event(error))

    async def close(self) -> None:
        """Stop everything at once; returns when this session asks nothing of a stage any more.

        A reply that was playing is remembered as far as it was heard.
        """
        self._closed.set()
        self._greeted.set()  # who waits for it is turned away
        await self._floor.close()

    # Client events, each by a handler of its own.

    async def _update(self, message: Event) -> None:
        await self._change(message.get("session"))
        await self._transport.send(event("session.updated", session=self._session_json()))

    async def _append(self, message: Event) -> None:
        audio_format = self._state.settings.audio.input.format.type
        most = self._services.profile.turn.max_audio_s
        await self._hear(read_audio(message.get("audio"), audio_format, most))

    async def _commit(self, message: Event) -> None:
        await self._committed(self._input.commit())

    async def _clear(self, message: Event) -> None:
        self._input.clear()
        await self._transport.send(event("input_audio_buffer.cleared"))

    async def _still(self, message: Event) -> None:
        self._floor.stills.append(await read_still(message.get("image")))
        del self._floor.stills[:-MAX_STILLS]

    async def _create_item(self, message: Event) -> None:
        item = await self._read_item(message.get("item"))
        after = message.get("previous_item_id")
        if after is not None and not isinstance(after, str):
            field = "previous_item_id"
            raise E3RGError("invalid_type", f"{field} is not text; send an item's id", param=field)
        await self._floor.add_complete(item, after)

    async def _retrieve_item(self, message: Event) -> None:
        item = self._floor.items.get(message.get("item_id"))
        await self._transport.send(event("conversation.item.retrieved", item=item.to_json()))

    async def _delete_item(self, message: Event) -> None:
        item = self._floor.items.remove(message.get("item_id"))
        await self._transport.send(event("conversation.item.deleted", item_id=item.id))

    async def _truncate_item(self, message: Event) -> None:
        item = self._floor.items.get(message.get("item_id"))
        end, index = message.get("audio_end_ms"), message.get("content_index", 0)
        if type(end) is not int or end < 0:
            raise E3RGError(
                "invalid_type",
                "audio_end_ms is a number of milliseconds",
                param="audio_end_ms",
            )
        if item.spoken is None or index != 0 or item.status == "in_progress":
            raise E3RGError(
                "invalid_value",
                f"item {item.id} has no finished speech at this content_index; cancel the response "
                "first if it goes on",
                param="item_id",
            )
        sent = round(1000 * item.spoken.seconds)
        if end > sent:
            raise E3RGError(
                "invalid_value",
                f"audio_end_ms is {end}, but only {sent} ms of the item were spoken",
                param="audio_end_ms",
            )
        await self._floor.truncate(item, end)

    async def _create_response(self, message: Event) -> None:
        params = response_params(message.get("response") or {})
        own = None
        if params.input is not None:
            own = [await self._input_item(fields) for fields in params.input]
        voice = voice_name(params.audio.output.voice)
        if voice is not None:
            await find_voice(self._services, voice, "response.audio.output.voice")
        self._floor.respond(self._state.context, params, own)

    async def _cancel_response(self, message: Event) -> None:
        response = self._floor.response
        wanted = message.get("response_id")
        if response is None or not response.running or wanted not in (None, response.id):
            raise E3RGError(
                "response_cancel_not_active", "there is no such response in work; nothing to cancel"
            )
        await self._floor.interrupt("client_cancelled")

    async def _clear_output(self, message: Event) -> None:
        await self._floor.interrupt("client_cancelled")

    # What they are made of.

    async def _hear(self, pcm: Pcm) -> None:
        self._active = time.monotonic()
        if pcm.seconds > _AT_ONCE_S:
            found = await asyncio.to_thread(self._input.feed, pcm)
        else:
            found = self._input.feed(pcm)
        fault: E3RGError | None = None
        for change in found:
            try:
                if isinstance(change, Started):
                    await self._speech_started(change)
                else:
                    await self._speech_stopped(change)
            except E3RGError as error:  # what was said after it is heard all the same
                fault = fault or error
        if fault is not None:
            raise fault

    async def _speech_started(self, change: Started) -> None:
        self._speech_item = new_id("item")
        self._prompted = False
        told = event(
            "input_audio_buffer.speech_started",
            item_id=self._speech_item,
            audio_start_ms=change.at_ms,
        )
        vad = self._state.settings.vad
        if vad is not None and vad.interrupt_response:
            await self._floor.interrupt("turn_detected", told)
        else:
            await self._transport.send(told)

    async def _speech_stopped(self, change: Stopped) -> None:
        self._speech_item = self._speech_item or new_id("item")
        await self._transport.send(
            event(
                "input_audio_buffer.speech_stopped",
                item_id=self._speech_item,
                audio_end_ms=change.at_ms,
            )
        )
        vad = self._state.settings.vad
        responds = vad is not None and vad.create_response
        await self._committed(change.audio, responds=responds)
        if responds:
            self._floor.respond(self._state.context, ResponseParams())

    async def _committed(self, audio: Pcm, *, responds: bool = False) -> None:
        name, self._speech_item = self._speech_item or new_id("item"), None
        item = Item(name, "user", [Part("input_audio", audio=audio)])
        self._floor.check(item)
        before = self._floor.items.last
        await self._transport.send(
            event("input_audio_buffer.committed", item_id=item.id, previous_item_id=before)
        )
        await self._floor.add_complete(item)
        if not responds and self._state.settings.audio.input.transcription is not None:
            await self._floor.transcribe(item)

    async def _input_item(self, fields: dict[str, Any]) -> Item:
        if fields.get("type") == "item_reference":
            return self._floor.items.get(fields.get("id"))
        await asyncio.sleep(0)  # a hundred long texts are checked; others get a word in between
        return await self._read_item(fields)

    async def _read_item(self, fields: Any) -> Item:
        audio_format = self._state.settings.audio.input.format.type
        return await read_item(fields, self._services.profile.turn, audio_format)

    async def _expire(self) -> None:
        if time.time() < self._expires:
            what = f"nothing happened for {IDLE_S / 60:.0f} minutes"
        else:
            what = f"a session lasts {SESSION_S / 60:.0f} minutes at most"
        error = E3RGError("session_expired", f"{what}; connect again")
        await self._transport.send(error_event(error))
        await self._transport.close(1001, error.message)

    async def _prompt(self) -> None:
        """Speak to somebody who says nothing (``idle_timeout_ms``), once until they speak again."""
        vad = self._state.settings.vad
        limit = vad.idle_timeout_ms if vad is not None else None
        if limit is None or self._prompted or self._lock.locked():
            return
        async with self._lock:
            quiet = 0.0 if self._input.speaking else 1000 * self._floor.quiet_s
            if quiet < limit:
                return
            self._prompted = True
            item = Item(new_id("item"), "user", [Part("input_audio")])
            end = self._input.end_ms
            await self._transport.send(
                event(
                    "input_audio_buffer.timeout_triggered",
                    item_id=item.id,
                    audio_start_ms=max(end - round(quiet), 0),
                    audio_end_ms=end,
                )
            )
            await self._floor.add_complete(item)
            self._floor.respond(self._state.context, ResponseParams())

    async def _change(self, session: Any) -> None:
        await self._state.change(session)
        self._input.configure(self._state.settings.vad)

    def _session_json(self) -> Event:
        return {
            **self._state.to_json(),
            "id": self.id,
            "object": "realtime.session",
            "expires_at": int(self._expires),
        }


_HANDLERS: dict[str, Handler] = {
    "session.update": RealtimeSession._update,
    "input_audio_buffer.append": RealtimeSession._append,
    "input_audio_buffer.commit": RealtimeSession._commit,
    "input_audio_buffer.clear": RealtimeSession._clear,
    "conversation.item.create": RealtimeSession._create_item,
    "conversation.item.retrieve": RealtimeSession._retrieve_item,
    "conversation.item.delete": RealtimeSession._delete_item,
    "conversation.item.truncate": RealtimeSession._truncate_item,
    "response.create": RealtimeSession._create_response,
    "response.cancel": RealtimeSession._cancel_response,
    "output_audio_buffer.clear": RealtimeSession._clear_output,
    "e3rg.input_image.append": RealtimeSession._still,
}
