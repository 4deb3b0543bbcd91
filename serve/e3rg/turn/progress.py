"""What the parts of a turn share: how far it has come, and the way of its events to the reader."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

from e3rg.errors import E3RGError
from e3rg.turn.events import Degraded, TurnEvent, TurnFailed
from e3rg.turn.request import TurnRequest
from e3rg.turn.state import Stages, TurnState

log = logging.getLogger(__name__)

_EVENTS_AHEAD = 32
"""Events that a slow reader may lag behind before the stages wait for it."""


class Progress:
    """One turn under way.

    Args:
        stages: where the work is done.
        request: what is asked.

    Attributes:
        state: how far it has come.
    """

    def __init__(self, stages: Stages, request: TurnRequest) -> None:
        self.stages = stages
        self.request = request
        self.state = TurnState()
        self._started = time.monotonic()
        self._out: asyncio.Queue[TurnEvent] = asyncio.Queue()
        self._room = asyncio.Semaphore(_EVENTS_AHEAD)

    async def next_event(self) -> TurnEvent:
        """The next event for the reader."""
        event = await self._out.get()
        self._room.release()
        return event

    async def emit(self, event: TurnEvent) -> None:
        """Hand an event to the reader; waits while the reader lags too far behind."""
        await self._room.acquire()
        self._out.put_nowait(event)

    def fail(self, error: E3RGError) -> None:
        """End the turn with an error."""
        self.state.status = "failed"
        # The end needs no room: it must not wait for a reader who is slow or gone.
        self._out.put_nowait(TurnFailed(error))

    async def degrade(self, wanted: str, given: str, error: E3RGError) -> None:
        """Go on with less and say so, or raise if the request does not allow it."""
        if not self.request.may_degrade or error.code == "deadline_exceeded":
            raise error
        log.warning("turn %s: no %s: %s", self.request.id, wanted, error.message)
        await self.concede(Degraded(str(wanted), str(given), error.code, error.message))

    async def concede(self, degraded: Degraded) -> None:
        """Say that from here on the reply is less than was asked for."""
        self.state.degraded.append(degraded)
        await self.emit(degraded)

    def mark(self, milestone: str) -> None:
        """Note when a milestone was first reached."""
        self.state.timings.setdefault(milestone, round(time.monotonic() - self._started, 4))

    def count_tokens(self, prompt: int, completion: int) -> None:
        """Set what the language model has read and written so far."""
        # The engine's counts are running totals, so that a reply cut short is counted too.
        self.state.usage = replace(
            self.state.usage, prompt_tokens=prompt, completion_tokens=completion
        )

    def spend(
        self,
        audio_seconds_in: float = 0.0,
        audio_seconds_out: float = 0.0,
        video_frames: int = 0,
    ) -> None:
        """Add to the turn's usage."""
        usage = self.state.usage
        self.state.usage = replace(
            usage,
            audio_seconds_in=usage.audio_seconds_in + audio_seconds_in,
            audio_seconds_out=usage.audio_seconds_out + audio_seconds_out,
            video_frames=usage.video_frames + video_frames,
        )
