"""Who speaks: a session's responses, one at a time, and what an interruption leaves of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from e3rg.emotions.types import Delivery
from e3rg.errors import E3RGError
from e3rg.gateway.realtime.config import ResponseParams
from e3rg.gateway.realtime.events import Event, event
from e3rg.gateway.realtime.heard import keep_heard
from e3rg.gateway.realtime.hearing import not_understood, transcribe
from e3rg.gateway.realtime.items import Conversation, Item
from e3rg.gateway.realtime.plan import Context, plan
from e3rg.gateway.realtime.response import CancelReason, Response
from e3rg.gateway.realtime.transport import Transport
from e3rg.gateway.realtime.wanted import Wanted
from e3rg.gateway.services import Services
from e3rg.turn.request import TurnRequest

_TAIL_S = 0.2
"""So little left unheard is as good as heard."""
_CLOSE_S = 30.0
_MAX_HEARING = 16
"""Items of one session whose words are looked for, or wait for it."""


class Floor:
    """The conversation's items and the listener's turn to speak.

    Attributes:
        items: the conversation.
        stills: pictures of the speaker, for the next user's item.
    """

    def __init__(self, services: Services, transport: Transport) -> None:
        self.items = Conversation()
        self.stills: list[bytes] = []
        self._services = services
        self._transport = transport
        self._response: Response | None = None
        self._delivery: Delivery | None = None
        self._quiet: float | None = None
        self._held: set[asyncio.Task[None]] = set()
        self._hearing: dict[str, asyncio.Task[None]] = {}
        self._ear = asyncio.Lock()  # one session takes one place of all sessions' recogniser
        self._cuts: dict[str, tuple[Response | None, str]] = {}
        self._cutting: asyncio.Task[None] | None = None

    @property
    def response(self) -> Response | None:
        """The newest response."""
        return self._response

    @property
    def quiet_s(self) -> float:
        """Seconds of quiet after the newest reply, counted from the first call after its end."""
        if self._response is None or self._plays(self._response):
            self._quiet = None
            return 0.0
        now = time.monotonic()
        self._quiet = now if self._quiet is None else self._quiet
        return now - self._quiet

    async def close(self) -> None:
        """Stop everything; a reply that was playing is remembered as far as it was heard."""
        response = self._response
        if response is not None:
            playing = self._plays(response)
            self._transport.clear()
            await response.close()
            item = response.item
            if playing and item is not None and item.spoken is not None and item.turn is not None:
                reply = item.spoken.until(self._transport.heard_s)
                self._keep(response, item.turn, reply)
        for task in tuple(self._hearing.values()):
            task.cancel()
        while self._held:
            await asyncio.wait(tuple(self._held), timeout=_CLOSE_S)

    def check(self, item: Item) -> None:
        """Make room for an item's sound, or refuse it.

        Raises:
            E3RGError: ``audio_too_long``.
        """
        seconds = sum(voice.seconds for voice in item.voices)
        self.items.make_room(seconds, self._services.profile.turn.max_audio_s)

    async def add(self, item: Item, after: str | None = None) -> None:
        """Put an item into the conversation, and tell of it; the oldest may go for it."""
        if item.role == "user":
            item.stills = tuple(self.stills)
        self.check(item)
        before, gone = self.items.add(item, after)
        if item.role == "user":
            self.stills = []
        await self._transport.send(
            event("conversation.item.added", item=item.to_json(), previous_item_id=before)
        )
        for name in gone:
            await self._transport.send(event("conversation.item.deleted", item_id=name))

    async def add_complete(self, item: Item, after: str | None = None) -> None:
        """Put in an item to which nothing more is added."""
        await self.add(item, after)
        await self.done(item)

    async def done(self, item: Item) -> None:
        """Tell that an item is complete."""
        before = self.items.before(item.id)
        await self._transport.send(
            event("conversation.item.done", item=item.to_json(), previous_item_id=before)
        )

    async def transcribe(self, item: Item) -> None:
        """Find an item's words in the background, and tell them."""
        if len(self._hearing) >= _MAX_HEARING:
            message = f"{_MAX_HEARING} items wait to be transcribed; commit more slowly"
            error = E3RGError("overloaded", message, status=503)
            await self._transport.send(not_understood(item, error))
            return
        self._hearing[item.id] = hearing = self._hold(self._hear(item, tell=True))
        hearing.add_done_callback(lambda _: self._hearing.pop(item.id, None))

    def respond(
        self, context: Context, params: ResponseParams, own: list[Item] | None = None
    ) -> None:
        """Begin a response.

        Args:
            context: the session, as it is now.
            params: what differs from it.
            own: items in place of the conversation.

        Raises:
            E3RGError: ``conversation_already_has_active_response``.
        """
        before = self._response
        if before is not None and before.running:
            raise E3RGError(
                "conversation_already_has_active_response",
                f"response {before.id} is still in work; wait for its response.done, or cancel it",
            )
        if before is not None:
            self._delivery = before.delivery or self._delivery
        previous = self._delivery or context.earlier.delivery
        items = list(self.items) if own is None else own
        told = context.settings.audio.input.transcription is not None

        async def hear(item: Item, may_wait: bool) -> bool:
            if item.id in self._hearing:
                await asyncio.wait({self._hearing[item.id]})
            elif may_wait:
                return False
            else:
                await self._hear(item, tell=told)
            return True

        async def prepare() -> tuple[TurnRequest, Item | None]:
            return await plan(self._services, context, params, items, previous, hear)

        async def put(item: Item) -> None:
            if item.status == "in_progress":
                await self.add(item)
            else:
                await self.done(item)

        self._response = Response(
            self._services,
            self._transport,
            Wanted(context.settings, params),
            context.conversation,
            prepare,
            put if params.conversation == "auto" else None,
        )
        self._response.start(before)

    async def interrupt(self, reason: CancelReason, first: Event | None = None) -> None:
        """Stop the reply at once, and keep of it what can have been heard.

        Args:
            reason: why.
            first: an event to send as soon as nothing more is played.
        """
        response = self._response
        playing = response is not None and self._plays(response)
        if response is not None and playing:
            self._transport.clear()
            response.stop(reason)
        if first is not None:
            await self._transport.send(first)
        if response is None or not playing:
            return
        await response.ended()
        item = response.item
        if item is not None and item.spoken is not None:
            heard = min(self._transport.heard_s, item.spoken.seconds)
            await self.truncate(item, int(1000 * heard))

    def _plays(self, response: Response) -> bool:
        """Whether more of a reply is to be made, or to be heard."""
        if response.running:
            return True
        item = response.item
        if item is None or item.spoken is None or response.cleared:
            return False
        return self._transport.heard_s < item.spoken.seconds - _TAIL_S

    async def truncate(self, item: Item, end_ms: int) -> None:
        """Keep of a spoken reply what was heard: here, in the record, and in memory."""
        assert item.spoken is not None
        item.parts[0].text = item.spoken.until(end_ms / 1000)
        response = self._response
        if response is not None and response.item is item:
            response.cleared = True
        else:
            response = None
        if item.turn is not None:
            self._keep(response, item.turn, item.parts[0].text)
        if item.id in self.items:
            await self._transport.send(
                event(
                    "conversation.item.truncated",
                    item_id=item.id,
                    content_index=0,
                    audio_end_ms=end_ms,
                )
            )

    async def _hear(self, item: Item, *, tell: bool) -> None:
        async with self._ear:
            await transcribe(self._services, self._transport, item, tell=tell)

    def _keep(self, response: Response | None, turn: str, reply: str) -> None:
        """Remember of a reply what was heard; of many cuts of one reply the last counts."""
        self._cuts[turn] = response or self._cuts.get(turn, (None, ""))[0], reply
        if self._cutting is None or self._cutting.done():
            self._cutting = self._hold(self._cut())

    async def _cut(self) -> None:
        while self._cuts:
            turn = next(iter(self._cuts))
            response, reply = self._cuts.pop(turn)
            await keep_heard(self._services, response, turn, reply)

    def _hold(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._held.add(task)
        task.add_done_callback(self._held.discard)
        return task
