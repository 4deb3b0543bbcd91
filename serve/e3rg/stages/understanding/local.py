"""The `local` understanding engine: small models on the CPU, each modality beside the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Self, TypeVar

from e3rg.config import ConfigError
from e3rg.embedding.minilm import MiniLmEmbedder
from e3rg.emotions.table import EmotionTable, load_table
from e3rg.emotions.types import Emotion, ModalityScore
from e3rg.engines import EngineContext
from e3rg.errors import E3RGError
from e3rg.media.types import Pcm
from e3rg.stages.understanding.engine import (
    HeardSegment,
    ListenRequest,
    Transcript,
    Utterance,
)
from e3rg.stages.understanding.face_emotion import FaceEmotion
from e3rg.stages.understanding.fusion import fuse
from e3rg.stages.understanding.text_emotion import TextEmotion, TextEmotionResult
from e3rg.stages.understanding.voice_emotion import recognize_voice
from e3rg.stages.understanding.whisper import DEFAULT_MODEL, Whisper

T = TypeVar("T")

MODALITIES = ("text", "voice", "face")
MAX_WAITING = 64


class LocalUnderstanding:
    """Implements UnderstandingEngine.

    Args:
        text: emotion from words, or None to do without; likewise the others.
        face: emotion from faces.
        voice: whether to listen to the voice.
        speech: speech recognition.
        threads: emotion calls at work at once. Speech recognition has a thread of its own, so
            that an emotion never waits behind a long transcription.
    """

    def __init__(
        self,
        text: TextEmotion | None,
        face: FaceEmotion | None,
        voice: bool,
        speech: Whisper,
        threads: int = 2,
    ) -> None:
        self._text, self._face, self._voice, self._speech = text, face, voice, speech
        self._table: EmotionTable = load_table()
        self._emotion_pool = ThreadPoolExecutor(threads, "emotion")
        self._speech_pool = ThreadPoolExecutor(1, "speech-recognition")
        self._running: set[threading.Event] = set()

    @classmethod
    def load(
        cls,
        context: EngineContext,
        *,
        threads: int = 2,
        whisper: str = DEFAULT_MODEL,
        languages: Sequence[str] = ("en",),
        beam: int = 3,
        modalities: Sequence[str] = MODALITIES,
    ) -> Self:
        """Load the models.

        Args:
            context: gives the model files.
            threads: cores for speech recognition, and emotion calls at once.
            whisper: folder of the speech recognition model, see Whisper.load.
            languages: that speech may be in, see Whisper.
            beam: width of Whisper's beam search.
            modalities: which of ``text``, ``voice`` and ``face`` to read emotion from.

        Raises:
            ConfigError: for a wrong option.
            E3RGError: ``model_missing``.
        """
        unknown = sorted(set(modalities) - set(MODALITIES))
        if unknown or not modalities:
            raise ConfigError(f"modalities: give some of {', '.join(MODALITIES)}, not {unknown}")
        if threads < 1:
            raise ConfigError("threads: give at least 1")
        models = context.models
        text = TextEmotion.load(MiniLmEmbedder.load(models)) if "text" in modalities else None
        face = FaceEmotion.load(models) if "face" in modalities else None
        speech = Whisper.load(models, whisper, languages=languages, threads=threads, beam=beam)
        return cls(text, face, "voice" in modalities, speech, threads)

    async def transcribe(self, audio: Pcm) -> Transcript:
        """See UnderstandingEngine."""
        return await self._run(self._speech_pool, lambda stop: self._speech.transcribe(audio, stop))

    async def listen(self, request: ListenRequest) -> AsyncGenerator[HeardSegment, None]:
        """See UnderstandingEngine; between two segments others may have their turn."""
        loop = asyncio.get_running_loop()
        with self._place() as stop:
            segments = self._speech.listen(request, stop)
            while True:
                segment = await loop.run_in_executor(self._speech_pool, next, segments, None)
                if segment is None:
                    return
                yield segment

    async def recognize(self, utterance: Utterance) -> Emotion:
        """See UnderstandingEngine; blank words, silence and frames without a face say nothing."""
        readings = (
            asyncio.ensure_future(self._read_text(utterance)),
            asyncio.ensure_future(self._read_voice(utterance)),
            asyncio.ensure_future(self._read_face(utterance)),
        )
        try:
            text, voice, face = await asyncio.gather(*readings)
        finally:
            for reading in readings:
                reading.cancel()
        return fuse(self._table, text, voice, face)

    def close(self) -> None:
        """Stop what runs and release the threads."""
        for stop in tuple(self._running):
            stop.set()
        for pool in (self._emotion_pool, self._speech_pool):
            pool.shutdown(wait=True, cancel_futures=True)

    async def _read_text(self, utterance: Utterance) -> TextEmotionResult | None:
        model = self._text
        if model is None or not utterance.text.strip():
            return None
        return await self._run(
            self._emotion_pool, lambda _: model.recognize(utterance.text, utterance.history)
        )

    async def _read_voice(self, utterance: Utterance) -> ModalityScore | None:
        audio = utterance.audio
        if not self._voice or audio is None:
            return None
        return await self._run(self._emotion_pool, lambda _: recognize_voice(audio))

    async def _read_face(self, utterance: Utterance) -> ModalityScore | None:
        model = self._face
        if model is None or not utterance.frames:
            return None
        return await self._run(
            self._emotion_pool, lambda stop: model.recognize(utterance.frames, stop)
        )

    async def _run(self, pool: ThreadPoolExecutor, work: Callable[[threading.Event], T]) -> T:
        """Run work in a thread; when the caller is cancelled, it is told to stop."""
        with self._place() as stop:
            return await asyncio.get_running_loop().run_in_executor(pool, work, stop)

    @contextmanager
    def _place(self) -> Iterator[threading.Event]:
        """Room for one more call; what it gives is set when the call ends."""
        if len(self._running) >= MAX_WAITING:
            raise E3RGError(
                "understanding_busy",
                f"understanding has {MAX_WAITING} calls in work or waiting; try again",
                status=503,
                retry_after=1.0,
            )
        stop = threading.Event()
        self._running.add(stop)
        try:
            yield stop
        finally:
            stop.set()
            self._running.discard(stop)
