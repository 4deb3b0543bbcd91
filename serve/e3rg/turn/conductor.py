"""Leads one turn through the stages: understand, retrieve, respond in three modalities at once.

Plain asyncio. Speech works on sentence k while the language model writes sentence k+1, and the
avatar renders k while speech works on k+1; at most two sentences are in flight in each stage.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from dataclasses import replace

from e3rg import attribution
from e3rg.deadline import bounded
from e3rg.emotions.table import listener_delivery
from e3rg.emotions.types import Category, Delivery, Emotion
from e3rg.errors import E3RGError
from e3rg.stages.memory.engine import MemoryQuery, Retrieval
from e3rg.stages.understanding.engine import Utterance
from e3rg.turn.calls import MEMORY_S, call
from e3rg.turn.events import (
    Degraded,
    EmotionRecognized,
    MemoryUsed,
    TranscriptReady,
    TurnCompleted,
    TurnCreated,
    TurnEvent,
    TurnFailed,
    UsageReported,
)
from e3rg.turn.film import prepare
from e3rg.turn.progress import Progress
from e3rg.turn.reply import Reply
from e3rg.turn.request import Modality, TurnRequest
from e3rg.turn.state import Stages

log = logging.getLogger(__name__)

# Longest waits for a stage, in seconds; a stage that hangs costs its part, not the whole reply.
_HEAR_S, _RECOGNIZE_S = 60.0, 10.0


class Turn:
    """One turn: iterate over ``events()`` once; ``state`` tells how far it came.

    Args:
        stages: where the work is done.
        request: what is asked.

    Attributes:
        state: how far it has come.
        started: Unix time.
    """

    def __init__(self, stages: Stages, request: TurnRequest) -> None:
        self.request = request
        self.started = time.time()
        self._progress = Progress(stages, request)
        self.state = self._progress.state
        self._stages = stages
        self._driver: asyncio.Task[None] | None = None

    async def events(self) -> AsyncGenerator[TurnEvent, None]:
        """Run the turn. Closing the generator stops all work in every stage."""
        if self._driver is not None:
            raise RuntimeError("a turn runs once")
        self._driver = asyncio.create_task(self._drive(), name=f"turn-{self.request.id}")
        try:
            while True:
                event = await self._progress.next_event()
                yield event
                if isinstance(event, TurnCompleted | TurnFailed):
                    return
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Stop the turn if it still runs; ``closed()`` tells when all work has ended."""
        if self._driver is not None and not self._driver.done():
            self._driver.cancel()

    async def closed(self) -> None:
        """Return when no stage works for this turn any more."""
        if self._driver is not None:
            await asyncio.wait({self._driver})

    async def _drive(self) -> None:
        request = self.request
        # This task, and all that it starts, works for this turn.
        who = attribution.current()
        attribution.adopt(
            replace(who, tenant=request.tenant, user=request.user, work=request.metered)
        )
        try:
            async with bounded(self.request.deadline):
                await self._run()
        except asyncio.CancelledError:
            self.state.status = "cancelled"
            raise
        except Exception as error:
            self._progress.fail(self._explain(error))

    def _explain(self, error: Exception) -> E3RGError:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, E3RGError):
            return error
        log.error("turn %s failed", self.request.id, exc_info=error)
        return E3RGError(
            "internal_error",
            f"the turn failed inside the server; name {self.request.id} when you report it",
            status=500,
        )

    async def _run(self) -> None:
        request = self.request
        await self._progress.emit(
            TurnCreated(request.id, request.conversation, request.identity.id)
        )
        if (less := request.concession) is not None:
            await self._progress.concede(Degraded(less.wanted, less.given, less.code, less.reason))
        async with asyncio.TaskGroup() as group:
            if request.reply_with is Modality.VIDEO and not request.still:
                group.create_task(prepare(self._progress))
            text = self.state.text = await self._hear()
            emotion, delivery = await self._understand(text)
            retrieval = await self._retrieve(text, emotion)
            await Reply(self._progress, text, emotion, delivery, retrieval).run()
        self.state.status = "completed"
        self._progress.mark("total")
        await self._progress.emit(UsageReported(self.state.usage))
        await self._progress.emit(
            TurnCompleted(self.state.reply, self.state.finish_reason, dict(self.state.timings))
        )

    async def _hear(self) -> str:
        request = self.request
        if request.audio is None:
            return request.text or ""
        self._progress.spend(audio_seconds_in=request.audio.seconds)
        if request.text:
            return request.text
        transcript = await call(
            "understanding", self._stages.understanding.transcribe(request.audio), _HEAR_S
        )
        if not transcript.text.strip():
            raise E3RGError(
                "no_speech",
                "no speech was heard in the audio; record it again closer to the microphone",
                param="video" if request.frames else "audio",
                status=422,
            )
        self._progress.mark("transcript")
        await self._progress.emit(TranscriptReady(transcript))
        return transcript.text

    async def _understand(self, text: str) -> tuple[Emotion, Delivery]:
        request = self.request
        try:
            utterance = Utterance(text, request.audio, request.frames, request.history)
            emotion = await call(
                "understanding", self._stages.understanding.recognize(utterance), _RECOGNIZE_S
            )
        except E3RGError as error:
            emotion = Emotion("content", Category.NEUTRAL, 0.0, 0.0)
            await self._progress.degrade("emotion", "neutral", error)
        delivery = listener_delivery(emotion, request.policy, request.previous)
        self.state.emotion, self.state.delivery = emotion, delivery
        self._progress.mark("emotion")
        await self._progress.emit(EmotionRecognized(emotion, delivery))
        return emotion, delivery

    async def _retrieve(self, text: str, emotion: Emotion) -> Retrieval:
        query = MemoryQuery(text, self.request.user, self.request.conversation, emotion)
        try:
            retrieval = await call("memory", self._stages.memory.retrieve(query), MEMORY_S)
        except E3RGError as error:
            retrieval = Retrieval()
            await self._progress.degrade("memory", "none", error)
        self.state.retrieval = retrieval
        self._progress.mark("memory")
        await self._progress.emit(MemoryUsed(retrieval))
        return retrieval
