"""Stages that do what a test tells them, for what real engines cannot be told to do: to fail at a
given moment, to wait for each other, to be slow. Their output has the real shape and size.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import cache

import cv2
import numpy as np

from e3rg.emotions.types import Category, Delivery, Emotion
from e3rg.errors import E3RGError
from e3rg.identities.types import Identity, PortraitRef, PortraitReport
from e3rg.media.segment_encoder import encode_still
from e3rg.media.types import Pcm, Phoneme, Still, VideoPacket
from e3rg.stages.avatar.engine import FPS, RenderRequest, VideoChunk
from e3rg.stages.dialogue.engine import DialogueRequest, TextDelta
from e3rg.stages.memory.engine import Embeddings, Episode, Exemplar, MemoryQuery, Retrieval
from e3rg.stages.speech.engine import SpeechRequest, SpeechSegment, VoiceInfo
from e3rg.stages.understanding.engine import (
    HeardSegment,
    ListenRequest,
    TimedText,
    Transcript,
    Utterance,
)
from e3rg.turn.request import TurnRequest
from e3rg.turn.state import Stages

RATE = 24_000
JPEG: bytes = cv2.imencode(".jpg", np.full((512, 512, 3), 90, np.uint8))[1].tobytes()
REPLY = "I am so sorry. He was a friend to you. Do you want to tell me about him?"


@cache
def grey(frames: int) -> tuple[VideoPacket, ...]:
    """Real H.264, since muxers look into it."""
    return tuple(encode_still(JPEG, frames))


@dataclass
class Script:
    """What the stages shall do, and what they saw."""

    reply: str = REPLY
    transcript: str = "I lost my dog."
    fail: dict[str, E3RGError] = field(default_factory=dict)
    fail_after: int = 0
    hold: dict[str, asyncio.Event] = field(default_factory=dict)
    working: dict[str, int] = field(default_factory=dict)
    calls: list[tuple[str, object]] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)

    async def enter(self, stage: str, what: object = None) -> None:
        self.calls.append((stage, what))
        self.working[stage] = self.working.get(stage, 0) + 1
        try:
            if stage in self.hold:
                await self.hold[stage].wait()
            await asyncio.sleep(0)
            seen = sum(1 for name, _ in self.calls if name == stage)
            if stage in self.fail and seen > self.fail_after:
                raise self.fail[stage]
        except BaseException:
            self.leave(stage)
            raise

    def leave(self, stage: str) -> None:
        self.working[stage] -= 1

    @property
    def idle(self) -> bool:
        return not any(self.working.values())

    async def until_working(self, stage: str, calls: int = 1, wait_s: float = 20) -> None:
        """Return when so many calls of a stage are in work."""
        async with asyncio.timeout(wait_s):
            while self.working.get(stage, 0) < calls:
                await asyncio.sleep(0.01)

    async def until_idle(self, wait_s: float = 20) -> None:
        """Return when no stage works; what is held stays held, so that leaving alone ends it."""
        async with asyncio.timeout(wait_s):
            while not self.idle:
                await asyncio.sleep(0.01)

    def stages(self) -> Stages:
        return Stages(Understanding(self), Memory(self), Dialogue(self), Speech(self), Avatar(self))


@dataclass
class Understanding:
    script: Script

    async def transcribe(self, audio: Pcm) -> Transcript:
        await self.script.enter("transcribe")
        self.script.leave("transcribe")
        return Transcript(self.script.transcript, "en", 0.9)

    async def listen(self, request: ListenRequest) -> AsyncGenerator[HeardSegment, None]:
        for index, sentence in enumerate(self.script.transcript.split(". ")):
            await self.script.enter("listen", request)
            self.script.leave("listen")
            words = tuple(TimedText(each, index, index + 0.5) for each in sentence.split())
            yield HeardSegment(sentence, index, index + 1, "en", words if request.words else ())

    async def recognize(self, utterance: Utterance) -> Emotion:
        await self.script.enter("understanding", utterance)
        self.script.leave("understanding")
        return Emotion("devastated", Category.SAD, 0.8, 0.7)


@dataclass
class Memory:
    script: Script

    async def retrieve(self, query: MemoryQuery) -> Retrieval:
        await self.script.enter("memory", query)
        self.script.leave("memory")
        return Retrieval((Exemplar("sad-01", "sad", "My cat died.", "I am sorry.", 0.8),))

    async def remember(self, episode: Episode) -> None:
        await self.script.enter("remember")
        self.script.leave("remember")
        self.script.episodes.append(episode)

    async def embed(self, texts: tuple[str, ...]) -> Embeddings:
        await self.script.enter("embed", texts)
        self.script.leave("embed")
        vectors = np.zeros((len(texts), 384), np.float32)
        vectors[range(len(texts)), [len(text) % 384 for text in texts]] = 1
        return Embeddings(vectors, sum(len(text.split()) for text in texts))

    async def forget(self, user: str) -> int:
        return 0


@dataclass
class Dialogue:
    script: Script

    async def stream(self, request: DialogueRequest) -> AsyncGenerator[TextDelta, None]:
        words = self.script.reply.split(" ")
        await self.script.enter("dialogue", request)
        try:
            for index, word in enumerate(words):
                await asyncio.sleep(0)
                yield TextDelta(word if index == 0 else f" {word}", None, 50, index + 1)
            yield TextDelta("", "stop", 50, len(words))
        finally:
            self.script.leave("dialogue")


@dataclass
class Speech:
    script: Script

    async def synthesize(self, request: SpeechRequest) -> SpeechSegment:
        await self.script.enter("speech", request)
        self.script.leave("speech")
        samples = 1_000 * len(request.text.strip())
        phonemes = (Phoneme("a", 0.0, samples / RATE),)
        return SpeechSegment(Pcm(b"\x10\x00" * samples, RATE), phonemes)

    async def voices(self) -> tuple[VoiceInfo, ...]:
        return (VoiceInfo("af_heart", "Heart", "female", "us"),)


@dataclass
class Avatar:
    script: Script

    async def render(self, request: RenderRequest) -> AsyncGenerator[VideoChunk, None]:
        total = request.audio.samples * FPS // request.audio.sample_rate
        for start in range(0, total, 10):
            await self.script.enter("avatar", request)
            try:
                count = min(10, total - start)
                yield VideoChunk(grey(count), request.first_frame + start)
            finally:
                self.script.leave("avatar")

    async def prepare(self, portrait: PortraitRef) -> None:
        await self.script.enter("prepare", portrait)
        self.script.leave("prepare")

    async def still(self, portrait: PortraitRef, delivery: Delivery) -> Still:
        await self.script.enter("still")
        self.script.leave("still")
        return Still(JPEG)

    async def inspect(self, portrait: bytes) -> PortraitReport:
        return PortraitReport(512, 512, (0.2, 0.2, 0.8, 0.8), 0, 0, 0, 100)


IDENTITY = Identity(
    "maya", "Maya", "female", "adult", "af_heart", PortraitRef("0" * 64), "Maya listens."
)


def turn_request(**changes: object) -> TurnRequest:
    values: dict[str, object] = {
        "id": "turn_1",
        "conversation": "conv_1",
        "identity": IDENTITY,
        "deadline": time.time() + 60,
        "text": "I lost my dog yesterday.",
    }
    return TurnRequest(**(values | changes))  # type: ignore[arg-type]
