"""Leads one turn through the stages: understand, retrieve, respond in three modalities at once.

Plain asyncio. Speech works on sentence k while the language model writes sentence k+1, and the
avatar renders k while speech works on k+1; at most two sentences are in flight in each stage.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from e3rg.deadline import bounded
from e3rg.emotions.table import listener_delivery
from e3rg.emotions.types import Category, Delivery, Emotion
from e3rg.errors import E3RGError
from e3rg.identities.types import PortraitRef
from e3rg.media.segment_encoder import encode_still
from e3rg.media.types import Still, VideoPacket
from e3rg.stages.avatar.engine import FPS, RenderRequest
from e3rg.stages.dialogue.engine import DialogueRequest
from e3rg.stages.memory.engine import Episode, MemoryQuery, Retrieval
from e3rg.stages.speech.engine import SpeechRequest
from e3rg.stages.understanding.engine import Utterance
from e3rg.turn.calls import call, iterate
from e3rg.turn.clock import MediaClock
from e3rg.turn.events import (
    AudioChunk,
    Degraded,
    EmotionRecognized,
    MemoryUsed,
    TextDelta,
    TranscriptReady,
    TurnCompleted,
    TurnCreated,
    TurnEvent,
    TurnFailed,
    UsageReported,
    VideoFrames,
)
from e3rg.turn.prompt import build_prompt
from e3rg.turn.request import Modality, TurnRequest
from e3rg.turn.sentences import SentenceLimit, SentenceSplitter
from e3rg.turn.state import Stages, TurnState

log = logging.getLogger(__name__)

_IN_FLIGHT = 1
"""Sentences that wait before a stage; with the one in work that makes two."""
# Longest waits for a stage, in seconds; a stage that hangs costs its part, not the whole reply.
_HEAR_S, _RECOGNIZE_S, _MEMORY_S, _FIRST_S, _TOKEN_S = 60.0, 10.0, 10.0, 90.0, 30.0
_SPEAK_S, _RENDER_S = 45.0, 30.0
_EVENTS_AHEAD = 32
"""Events that a slow reader may lag behind before the stages wait for it."""


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
        self.state = TurnState()
        self._stages = stages
        self.started = time.time()
        self._started = time.monotonic()
        self._out: asyncio.Queue[TurnEvent] = asyncio.Queue()
        self._room = asyncio.Semaphore(_EVENTS_AHEAD)
        self._driver: asyncio.Task[None] | None = None

    async def events(self) -> AsyncGenerator[TurnEvent, None]:
        """Run the turn. Closing the generator stops all work in every stage."""
        if self._driver is not None:
            raise RuntimeError("a turn runs once")
        self._driver = asyncio.create_task(self._drive(), name=f"turn-{self.request.id}")
        try:
            while True:
                event = await self._out.get()
                self._room.release()
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
        try:
            async with bounded(self.request.deadline):
                await self._run()
        except asyncio.CancelledError:
            self.state.status = "cancelled"
            raise
        except Exception as error:
            self._fail(self._explain(error))

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

    def _fail(self, error: E3RGError) -> None:
        self.state.status = "failed"
        # The end needs no room: it must not wait for a reader who is slow or gone.
        self._out.put_nowait(TurnFailed(error))

    async def _emit(self, event: TurnEvent) -> None:
        await self._room.acquire()
        self._out.put_nowait(event)

    async def _run(self) -> None:
        request = self.request
        await self._emit(TurnCreated(request.id, request.conversation, request.identity.id))
        async with asyncio.TaskGroup() as group:
            if request.reply_with is Modality.VIDEO:
                group.create_task(self._prepare())
            text = self.state.text = await self._hear()
            emotion, delivery = await self._understand(text)
            retrieval = await self._retrieve(text, emotion)
            await self._respond(text, emotion, delivery, retrieval)
        self.state.status = "completed"
        self._mark("total")
        await self._emit(UsageReported(self.state.usage))
        await self._emit(
            TurnCompleted(self.state.reply, self.state.finish_reason, dict(self.state.timings))
        )

    async def _prepare(self) -> None:
        try:
            await call("avatar", self._stages.avatar.prepare(self._portrait), _RENDER_S)
        except E3RGError as error:
            log.debug("not prepared, rendering will tell: %s", error.message)

    async def _respond(
        self, text: str, emotion: Emotion, delivery: Delivery, retrieval: Retrieval
    ) -> None:
        request = self.request
        # The model's sentences flow through speech to the avatar; None ends the flow.
        sentences: asyncio.Queue[str | None] = asyncio.Queue(_IN_FLIGHT)
        spoken: asyncio.Queue[AudioChunk | None] = asyncio.Queue(_IN_FLIGHT)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write(text, emotion, retrieval, sentences))
            if request.reply_with is not Modality.TEXT:
                group.create_task(self._speak(delivery, sentences, spoken))
            if request.reply_with is Modality.VIDEO:
                group.create_task(self._film(delivery, spoken))

    async def _hear(self) -> str:
        request = self.request
        if request.audio is None:
            return request.text or ""
        self._spend(audio_seconds_in=request.audio.seconds)
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
        self._mark("transcript")
        await self._emit(TranscriptReady(transcript))
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
            await self._degrade("emotion", "neutral", error)
        delivery = listener_delivery(emotion, request.policy, request.previous)
        self.state.emotion, self.state.delivery = emotion, delivery
        self._mark("emotion")
        await self._emit(EmotionRecognized(emotion, delivery))
        return emotion, delivery

    async def _retrieve(self, text: str, emotion: Emotion) -> Retrieval:
        query = MemoryQuery(text, self.request.user, self.request.conversation, emotion)
        try:
            retrieval = await call("memory", self._stages.memory.retrieve(query), _MEMORY_S)
        except E3RGError as error:
            retrieval = Retrieval()
            await self._degrade("memory", "none", error)
        self.state.retrieval = retrieval
        self._mark("memory")
        await self._emit(MemoryUsed(retrieval))
        return retrieval

    async def _write(
        self,
        text: str,
        emotion: Emotion,
        retrieval: Retrieval,
        sentences: asyncio.Queue[str | None],
    ) -> None:
        request = self.request
        speaking = request.reply_with is not Modality.TEXT
        splitter = SentenceSplitter()
        limit = SentenceLimit(request.max_sentences)
        prompt = build_prompt(request.identity, text, emotion, retrieval, request.history)
        deltas = self._stages.dialogue.stream(
            DialogueRequest(
                prompt,
                max_tokens=request.max_tokens,
                temperature=request.temperature,
                seed=request.reply_seed,
            )
        )
        async with aclosing(iterate("dialogue", deltas, _FIRST_S, _TOKEN_S)) as written:
            async for delta in written:
                kept, ended = limit.feed(delta.text)
                self._count_tokens(delta.prompt_tokens, delta.completion_tokens)
                if kept:
                    self._mark("first_token")
                    self.state.reply += kept
                    await self._emit(TextDelta(kept))
                if speaking:
                    for piece in splitter.feed(kept):
                        await sentences.put(piece)
                if ended:
                    break
                if delta.finish_reason is not None:
                    self.state.finish_reason = delta.finish_reason
        if speaking:
            for piece in splitter.finish():
                await sentences.put(piece)
            await sentences.put(None)
        if request.user is not None and self.state.reply:
            await self._remember(text, emotion, request.user)

    async def _remember(self, text: str, emotion: Emotion, user: str) -> None:
        request = self.request
        episode = Episode(
            id=request.id,
            user=user,
            conversation=request.conversation,
            text=text,
            reply=self.state.reply,
            emotion=emotion.label,
            created=time.time(),
        )
        try:
            await call("memory", self._stages.memory.remember(episode), _MEMORY_S)
        except E3RGError as error:
            await self._degrade("memory", "none", error)

    async def _speak(
        self,
        delivery: Delivery,
        sentences: asyncio.Queue[str | None],
        spoken: asyncio.Queue[AudioChunk | None],
    ) -> None:
        filming = self.request.reply_with is Modality.VIDEO
        clock: MediaClock | None = None
        silenced = False
        while (sentence := await sentences.get()) is not None:
            if silenced:
                continue
            try:
                said = SpeechRequest(sentence, self.request.identity.voice, delivery)
                segment = await call("speech", self._stages.speech.synthesize(said), _SPEAK_S)
            except E3RGError as error:
                silenced = True
                await self._degrade(Modality.AUDIO, Modality.TEXT, error)
                continue
            if not segment.audio.samples:
                continue
            clock = clock or MediaClock(segment.audio.sample_rate, FPS)
            audio, first = clock.place(segment.audio)
            chunk = AudioChunk(sentence.strip(), audio, first, segment.phonemes)
            self._mark("first_audio")
            self._spend(audio_seconds_out=audio.seconds)
            await self._emit(chunk)
            if filming:
                await spoken.put(chunk)
        if filming:
            await spoken.put(None)

    async def _film(self, delivery: Delivery, spoken: asyncio.Queue[AudioChunk | None]) -> None:
        previous = self.request.previous
        still: Still | None = None
        while (chunk := await spoken.get()) is not None:
            clock = MediaClock(chunk.audio.sample_rate, FPS)
            first = chunk.first_sample // clock.samples_per_frame
            total = chunk.audio.samples // clock.samples_per_frame
            done = 0
            if still is None:
                try:
                    rendering = self._render(chunk, first, delivery, previous)
                    async with aclosing(rendering):
                        async for packets in rendering:
                            audio = clock.slice(chunk.audio, done, len(packets))
                            await self._show(VideoFrames(packets, audio, first + done))
                            done += len(packets)
                except E3RGError as error:
                    still = await self._freeze(delivery, error)
                    if still is None:
                        await _drain(spoken)  # sound goes on by itself
                        return
            if still is not None:
                held = await asyncio.to_thread(encode_still, still.jpeg, total - done)
                audio = clock.slice(chunk.audio, done, total - done)
                await self._show(VideoFrames(tuple(held), audio, first + done))
            previous = delivery

    async def _render(
        self, chunk: AudioChunk, first_frame: int, delivery: Delivery, previous: Delivery | None
    ) -> AsyncGenerator[tuple[VideoPacket, ...], None]:
        frames = self._stages.avatar.render(
            RenderRequest(
                portrait=self._portrait,
                audio=chunk.audio,
                phonemes=chunk.phonemes,
                first_frame=first_frame,
                delivery=delivery,
                previous=previous,
                seed=self.request.seed,
            )
        )
        async with aclosing(iterate("avatar", frames, _RENDER_S, _RENDER_S)) as rendered:
            async for video in rendered:
                yield video.packets

    async def _show(self, frames: VideoFrames) -> None:
        if frames.packets:
            self._mark("first_frame")
            self._spend(video_frames=len(frames.packets))
            await self._emit(frames)

    async def _freeze(self, delivery: Delivery, error: E3RGError) -> Still | None:
        try:
            still = await call(
                "avatar", self._stages.avatar.still(self._portrait, delivery), _RENDER_S
            )
        except E3RGError:
            await self._degrade(Modality.VIDEO, Modality.AUDIO, error)
            return None
        await self._degrade(Modality.VIDEO, "still", error)
        return still

    async def _degrade(self, wanted: str, given: str, error: E3RGError) -> None:
        """Go on with less and say so, or raise if the request does not allow it."""
        if not self.request.may_degrade or error.code == "deadline_exceeded":
            raise error
        log.warning("turn %s: no %s: %s", self.request.id, wanted, error.message)
        degraded = Degraded(str(wanted), str(given), error.code, error.message)
        self.state.degraded.append(degraded)
        await self._emit(degraded)

    @property
    def _portrait(self) -> PortraitRef:
        return self.request.identity.portrait

    def _mark(self, milestone: str) -> None:
        self.state.timings.setdefault(milestone, round(time.monotonic() - self._started, 4))

    def _count_tokens(self, prompt: int, completion: int) -> None:
        # The engine's counts are running totals, so that a reply cut short is counted too.
        self.state.usage = replace(
            self.state.usage, prompt_tokens=prompt, completion_tokens=completion
        )

    def _spend(
        self,
        audio_seconds_in: float = 0.0,
        audio_seconds_out: float = 0.0,
        video_frames: int = 0,
    ) -> None:
        usage = self.state.usage
        self.state.usage = replace(
            usage,
            audio_seconds_in=usage.audio_seconds_in + audio_seconds_in,
            audio_seconds_out=usage.audio_seconds_out + audio_seconds_out,
            video_frames=usage.video_frames + video_frames,
        )


async def _drain(queue: asyncio.Queue[AudioChunk | None]) -> None:
    while await queue.get() is not None:
        pass
