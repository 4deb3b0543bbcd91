"""The reply's words and voice: the language model writes while speech says what is written."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace

from e3rg.emotions.types import Delivery, Emotion
from e3rg.errors import E3RGError
from e3rg.stages.avatar.engine import FPS
from e3rg.stages.dialogue.engine import DialogueRequest
from e3rg.stages.memory.engine import Episode, Retrieval
from e3rg.stages.speech.engine import SpeechRequest
from e3rg.turn.calls import MEMORY_S, call, iterate
from e3rg.turn.clock import MediaClock
from e3rg.turn.events import AudioChunk, TextDelta
from e3rg.turn.film import Film
from e3rg.turn.progress import Progress
from e3rg.turn.prompt import build_prompt
from e3rg.turn.request import Modality
from e3rg.turn.sentences import SentenceLimit, SentenceSplitter

_IN_FLIGHT = 1
"""Sentences that wait before a stage; with the one in work that makes two."""
# Longest waits in seconds: for the model's first token, which may have to queue, for each later
# one, and for a sentence's sound.
_FIRST_S, _TOKEN_S, _SPEAK_S = 90.0, 30.0, 45.0


class Reply:
    """Answers in up to three modalities at once.

    Args:
        progress: the turn.
        text: what the speaker said.
        emotion: what was recognised.
        delivery: the listener's expression.
        retrieval: what memory found.
    """

    def __init__(
        self,
        progress: Progress,
        text: str,
        emotion: Emotion,
        delivery: Delivery,
        retrieval: Retrieval,
    ) -> None:
        self._progress = progress
        self._text = text
        self._emotion = emotion
        self._delivery = delivery
        self._retrieval = retrieval

    async def run(self) -> None:
        """Give the whole reply."""
        reply_with = self._progress.request.reply_with
        # The model's sentences flow through speech to the avatar; None ends the flow.
        sentences: asyncio.Queue[str | None] = asyncio.Queue(_IN_FLIGHT)
        spoken: asyncio.Queue[AudioChunk | None] = asyncio.Queue(_IN_FLIGHT)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write(sentences))
            if reply_with is not Modality.TEXT:
                group.create_task(self._speak(sentences, spoken))
            if reply_with is Modality.VIDEO:
                film = Film(self._progress, self._delivery)
                group.create_task(film.run(spoken))

    async def _write(self, sentences: asyncio.Queue[str | None]) -> None:
        request = self._progress.request
        speaking = request.reply_with is not Modality.TEXT
        splitter = SentenceSplitter()
        limit = SentenceLimit(request.max_sentences)
        deltas = self._progress.stages.dialogue.stream(self._asked())
        async with aclosing(iterate("dialogue", deltas, _FIRST_S, _TOKEN_S)) as written:
            async for delta in written:
                kept, ended = limit.feed(delta.text)
                self._progress.count_tokens(delta.prompt_tokens, delta.completion_tokens)
                if kept:
                    self._progress.mark("first_token")
                    self._progress.state.reply += kept
                    await self._progress.emit(TextDelta(kept))
                if speaking:
                    for piece in splitter.feed(kept):
                        await sentences.put(piece)
                if ended:
                    break
                if delta.finish_reason is not None:
                    self._progress.state.finish_reason = delta.finish_reason
        if speaking:
            for piece in splitter.finish():
                await sentences.put(piece)
            await sentences.put(None)
        if request.user is not None and self._progress.state.reply:
            await self._remember(request.user)

    def _asked(self) -> DialogueRequest:
        request = self._progress.request
        prompt = build_prompt(
            request.identity,
            self._text,
            self._emotion,
            self._retrieval,
            request.history,
            request.instructions,
        )
        asked = DialogueRequest(
            prompt,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            seed=request.reply_seed,
            stop=request.stop,
        )
        chosen = {
            name: value
            for name in ("top_p", "frequency_penalty", "presence_penalty")
            if (value := getattr(request, name)) is not None
        }
        return replace(asked, **chosen)

    async def _remember(self, user: str) -> None:
        request = self._progress.request
        episode = Episode(
            id=request.id,
            user=user,
            conversation=request.conversation,
            text=self._text,
            reply=self._progress.state.reply,
            emotion=self._emotion.label,
            created=time.time(),
        )
        try:
            await call("memory", self._progress.stages.memory.remember(episode), MEMORY_S)
        except E3RGError as error:
            await self._progress.degrade("memory", "none", error)

    async def _speak(
        self,
        sentences: asyncio.Queue[str | None],
        spoken: asyncio.Queue[AudioChunk | None],
    ) -> None:
        request = self._progress.request
        speech = self._progress.stages.speech
        filming = request.reply_with is Modality.VIDEO
        clock: MediaClock | None = None
        silenced = False
        while (sentence := await sentences.get()) is not None:
            if silenced:
                continue
            try:
                said = SpeechRequest(
                    sentence, request.identity.voice, self._delivery, request.speed
                )
                segment = await call("speech", speech.synthesize(said), _SPEAK_S)
            except E3RGError as error:
                silenced = True
                await self._progress.degrade(Modality.AUDIO, Modality.TEXT, error)
                continue
            if not segment.audio.samples:
                continue
            clock = clock or MediaClock(segment.audio.sample_rate, FPS)
            audio, first = clock.place(segment.audio)
            chunk = AudioChunk(sentence.strip(), audio, first, segment.phonemes)
            self._progress.mark("first_audio")
            self._progress.spend(audio_seconds_out=audio.seconds)
            await self._progress.emit(chunk)
            if filming:
                await spoken.put(chunk)
        if filming:
            await spoken.put(None)
