"""Emotional speech with Kokoro-82M on the CPU, through ONNX Runtime."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from e3rg.config import ConfigError
from e3rg.emotions.types import Delivery, Expression
from e3rg.engines import EngineContext
from e3rg.errors import E3RGError
from e3rg.media.types import Pcm, Phoneme
from e3rg.stages.speech.delivery import Prosody, prosody
from e3rg.stages.speech.engine import (
    MAX_SPEED,
    MIN_SPEED,
    Accent,
    SpeechRequest,
    SpeechSegment,
    VoiceInfo,
)
from e3rg.stages.speech.g2p import PAUSES, Pronouncer
from e3rg.stages.speech.kokoro_graph import FRAME_SAMPLES, UnknownGraphError, expressive_graph
from e3rg.stages.speech.letters import LetterNetwork
from e3rg.stages.speech.lexicon import Lexicon
from e3rg.stages.speech.normalize import normalize
from e3rg.stages.speech.sound import Samples, fade, finish, to_pcm16, trim
from e3rg.stages.speech.symbols import MAX_TOKENS, TOKENS, pieces
from e3rg.stages.speech.tempo import stretch
from e3rg.stages.speech.timing import phoneme_times
from e3rg.stages.speech.voices import VOICES

SAMPLE_RATE = 24_000
_STYLE_SIZE = 256
# The network swallows words when it is hurried more than this; what is beyond is stretched.
_SLOWEST, _FASTEST = 0.4, 1.5
# Frames of 25 ms. The network puts up to 0.4 s of silence before a sentence; fewer than about 12
# frames there swallow the first sound. What silence remains is cut from the sound.
_LEAD_FRAMES, _TAIL_FRAMES, _FINAL_PAUSE_FRAMES, _PAUSE_FRAMES = 14.0, 2.0, 8.0, 14.0
_BEFORE_S, _AFTER_S = 0.04, 0.20
_UNBOUNDED = 1000.0


class Cancelled(Exception):  # noqa: N818 - it is no error
    """The work was given up; raised in the worker thread only."""


class _Job:
    """One request's switch: shared by the event loop, which turns it, and the worker thread."""

    def __init__(self) -> None:
        self.options = ort.RunOptions()
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        self.cancelled.set()
        self.options.terminate = True  # a session.run in progress stops at its next operator


class KokoroSpeech:
    """SpeechEngine over Kokoro-82M: see ``load`` for its options, ``voices`` for its voices."""

    def __init__(
        self,
        session: ort.InferenceSession,
        styles: Mapping[str, NDArray[np.float32]],
        lexicons: Mapping[Accent, tuple[Path, Path]],
        letters: LetterNetwork,
        *,
        max_waiting: int,
        max_chars: int,
        max_tokens: int,
    ) -> None:
        self._session = session
        self._styles = dict(styles)
        self._lexicons = lexicons
        self._letters = letters
        self._pronouncers: dict[Accent, Pronouncer] = {}
        self._max_waiting = max_waiting
        self._max_chars = max_chars
        self._max_tokens = max_tokens
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="kokoro")
        self._jobs: set[_Job] = set()
        self._closed = False

    @classmethod
    def load(
        cls,
        context: EngineContext,
        *,
        threads: int = 2,
        max_waiting: int = 8,
        max_chars: int = 5000,
        max_tokens: int = 200,
    ) -> Self:
        """Read the model, open its graph (see kokoro_graph) and speak a word to warm up.

        Args:
            context: where the model files are.
            threads: ONNX Runtime's threads; they sleep between operators, not spin.
            max_waiting: requests at once, running and waiting; one more is refused.
            max_chars: longest text of a request.
            max_tokens: longest piece that goes through the model in one go, 50 to 510 phonemes
                (200 is about 13 s); bounds memory.

        Raises:
            ConfigError: for an option out of range, or a model file that is not Kokoro.
        """
        for name, value, low, high in (
            ("threads", threads, 1, 256),
            ("max_waiting", max_waiting, 1, 10_000),
            ("max_chars", max_chars, 1, 1_000_000),
            ("max_tokens", max_tokens, 50, MAX_TOKENS),
        ):
            if not low <= value <= high:
                raise ConfigError(f"speech option {name} is {value}: use {low} to {high}")
        path = context.models.path
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Shapes differ with every sentence: a remembered memory plan per shape would only grow.
        options.enable_mem_pattern = False
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            session = ort.InferenceSession(
                expressive_graph(path("kokoro/model.onnx")),
                options,
                providers=["CPUExecutionProvider"],
            )
        except UnknownGraphError as error:
            raise ConfigError(f"speech model: {error}; run `e3rg models verify`") from error
        styles = {voice.id: _style(path(f"kokoro/voices/{voice.id}.bin")) for voice in VOICES}
        lexicons: dict[Accent, tuple[Path, Path]] = {
            "us": (path("kokoro/lexicon/us_gold.json"), path("kokoro/lexicon/us_silver.json")),
            "uk": (path("kokoro/lexicon/gb_gold.json"), path("kokoro/lexicon/gb_silver.json")),
        }
        engine = cls(
            session,
            styles,
            lexicons,
            LetterNetwork(path("kokoro/lexicon/letters.npz")),
            max_waiting=max_waiting,
            max_chars=max_chars,
            max_tokens=max_tokens,
        )
        warm_up = SpeechRequest("Hello there.", VOICES[0].id, Delivery(Expression.NEUTRAL, 0.0))
        engine._speak(warm_up, _Job())
        return engine

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """The voices that a request may name."""
        return VOICES

    async def synthesize(self, request: SpeechRequest) -> SpeechSegment:
        """Speak one sentence; see SpeechEngine. Text with nothing to say gives no samples.

        Raises:
            E3RGError: ``unknown_voice`` (param ``voice``), ``invalid_speed`` (param ``speed``),
                ``text_too_long`` (param ``text``), ``speech_busy`` (503), ``speech_closed`` (503).
        """
        self._check(request)
        job = _Job()
        self._jobs.add(job)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, self._speak, request, job)
        except asyncio.CancelledError:
            job.cancel()
            task = asyncio.current_task()
            if self._closed and not (task and task.cancelling()):
                raise _closed() from None  # close() dropped it from the queue
            raise
        except Cancelled:
            raise _closed() from None
        finally:
            self._jobs.discard(job)

    def close(self) -> None:
        """Stop what runs and release the model; safe to call twice."""
        self._closed = True
        for job in tuple(self._jobs):
            job.cancel()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._styles.clear()
        self._pronouncers.clear()
        del self._session
        self._session = None

    def _check(self, request: SpeechRequest) -> None:
        if self._closed:
            raise _closed()
        if request.voice not in self._styles:
            known = ", ".join(voice.id for voice in VOICES)
            raise E3RGError(
                "unknown_voice",
                f"voice {request.voice[:64]!r} does not exist: use one of {known}",
                param="voice",
            )
        if not (math.isfinite(request.speed) and MIN_SPEED <= request.speed <= MAX_SPEED):
            raise E3RGError(
                "invalid_speed",
                f"speed is {request.speed}: use {MIN_SPEED} to {MAX_SPEED}",
                param="speed",
            )
        if len(request.text) > self._max_chars:
            raise E3RGError(
                "text_too_long",
                f"text has {len(request.text)} characters: send at most {self._max_chars} at once",
                param="text",
            )
        if len(self._jobs) >= self._max_waiting:
            raise E3RGError(
                "speech_busy",
                "too many sentences wait for the voice: try again in a second",
                status=503,
                retry_after=1,
            )

    def _speak(self, request: SpeechRequest, job: _Job) -> SpeechSegment:
        """Text to sound, in the worker thread."""
        accent: Accent = "uk" if request.voice.startswith("b") else "us"
        shape = prosody(request.delivery)
        wanted = request.speed * shape.rate
        speed = min(max(wanted, _SLOWEST), _FASTEST)
        said = self._pronouncer(accent)(normalize(request.text))
        said = "".join(symbol for symbol in said if symbol in TOKENS)
        sounds: list[Samples] = []
        phonemes: list[Phoneme] = []
        start = 0.0
        for piece in pieces(said, self._max_tokens):
            if not any(symbol not in PAUSES and symbol != " " for symbol in piece):
                continue
            samples, frames = self._run(piece, request.voice, speed, shape, job)
            times = phoneme_times(piece, frames, samples, SAMPLE_RATE, FRAME_SAMPLES)
            first, last = trim(samples, SAMPLE_RATE, before_s=_BEFORE_S, after_s=_AFTER_S)
            phonemes += _moved(times, start - first / SAMPLE_RATE, start, last - first)
            sounds.append(fade(samples[first:last], SAMPLE_RATE))
            start += (last - first) / SAMPLE_RATE
        if not sounds:
            return SpeechSegment(Pcm(b"", SAMPLE_RATE), ())
        finished = finish(
            np.concatenate(sounds),
            SAMPLE_RATE,
            gain_db=shape.gain_db,
            brightness_db=shape.brightness_db,
        )
        if wanted != speed:
            finished, phonemes = _stretched(finished, phonemes, wanted / speed)
        return SpeechSegment(Pcm(to_pcm16(finished), SAMPLE_RATE), tuple(phonemes))

    def _run(
        self, piece: str, voice: str, speed: float, shape: Prosody, job: _Job
    ) -> tuple[Samples, NDArray[np.int64]]:
        """One pass through the model: samples, and frames per token."""
        if job.cancelled.is_set():
            raise Cancelled
        tokens = [0, *(TOKENS[symbol] for symbol in piece), 0]
        caps = [_PAUSE_FRAMES if symbol in PAUSES else _UNBOUNDED for symbol in piece]
        if piece[-1] in PAUSES:
            caps[-1] = _FINAL_PAUSE_FRAMES
        styles = self._styles[voice]
        # The voice has one style for each length of text.
        style = styles[min(len(piece), len(styles)) - 1]
        feed = {
            "tokens": np.array([tokens], np.int64),
            "style": style[np.newaxis],
            "speed": np.array([speed], np.float32),
            "max_frames": np.array([_LEAD_FRAMES, *caps, _TAIL_FRAMES], np.float32),
            "pitch": np.array([shape.pitch], np.float32),
            "pitch_range": np.array([shape.pitch_range], np.float32),
        }
        try:
            audio, frames = self._session.run(["audio", "durations"], feed, job.options)
        except Exception as error:  # ONNX Runtime has no error type of its own for termination
            if job.cancelled.is_set():
                raise Cancelled from error
            raise
        return np.nan_to_num(audio.ravel()).astype(np.float32), frames[0]

    def _pronouncer(self, accent: Accent) -> Pronouncer:
        if accent not in self._pronouncers:  # 45 MB each; only the one worker thread comes here
            gold, silver = self._lexicons[accent]
            lexicon = Lexicon.read(gold, silver, british=accent == "uk")
            self._pronouncers[accent] = Pronouncer(lexicon, self._letters)
        return self._pronouncers[accent]


def _moved(
    phonemes: Sequence[Phoneme], shift: float, start: float, samples: int
) -> Iterator[Phoneme]:
    """Phonemes on the clock of the whole utterance, within their own piece of it."""
    end = start + samples / SAMPLE_RATE
    for each in phonemes:
        begun, ended = (min(max(t + shift, start), end) for t in (each.start, each.end))
        if ended > begun:
            yield Phoneme(each.symbol, begun, ended)


def _stretched(
    samples: Samples, phonemes: Sequence[Phoneme], tempo: float
) -> tuple[Samples, list[Phoneme]]:
    """Sound and phonemes at another tempo."""
    changed = fade(stretch(samples, SAMPLE_RATE, tempo), SAMPLE_RATE)
    times = [Phoneme(p.symbol, p.start / tempo, p.end / tempo) for p in phonemes]
    return changed, list(_moved(times, 0.0, 0.0, len(changed)))


def _style(path: Path) -> NDArray[np.float32]:
    """A voice file: float32, one row of 256 for each text length."""
    values = np.fromfile(path, dtype=np.float32)
    if not len(values) or len(values) % _STYLE_SIZE:
        raise ConfigError(f"{path.name} is not a Kokoro voice; run `e3rg models verify`")
    return values.reshape(-1, _STYLE_SIZE)


def _closed() -> E3RGError:
    return E3RGError("speech_closed", "the voice is shutting down: try again", status=503)
