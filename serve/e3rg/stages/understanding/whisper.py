"""Speech recognition: Whisper (Radford et al. 2022, arXiv 2212.04356) on CTranslate2.

Whisper writes plausible sentences for noise, so a voice activity net (Silero VAD, inside
faster-whisper) decides first whether anybody speaks, and improbable segments are dropped after.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Self, cast

import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.transcribe import Segment, get_compression_ratio
from faster_whisper.vad import VadOptions, collect_chunks, get_speech_timestamps
from numpy.typing import NDArray

from e3rg.config import ConfigError
from e3rg.errors import E3RGError
from e3rg.media.types import SPEECH_INPUT_RATE, Pcm
from e3rg.models.store import ModelStore
from e3rg.stages.understanding.engine import HeardSegment, ListenRequest, TimedText, Transcript

DEFAULT_MODEL = "whisper-tiny.en"

# Speech is decoded in windows cut at pauses: nothing can stop Whisper within a window, so a window
# is how long a cancelled turn may go on computing.
_WINDOW_S = 15.0
_VAD = VadOptions(
    min_speech_duration_ms=100,
    min_silence_duration_ms=500,
    max_speech_duration_s=_WINDOW_S,
    speech_pad_ms=200,
)
# 15 s of fast speech is about 80 tokens.
_MAX_TOKENS = 160
# Text that compresses too well is a loop (section 4.5 of the paper), if it is also more than
# anybody can say; people do repeat themselves.
_MAX_COMPRESSION = 2.4
_MAX_LETTERS_A_SECOND = 25.0
# Speech that was heard is far above this.
_MIN_LOG_PROBABILITY = -1.5
_QUIET_PEAK, _LOUD_PEAK = 0.001, 0.5
# The model reads the last 224 tokens of a prompt; a token is seldom more than four letters.
_PROMPT_CHARS = 1_000
# What the tokenizer would take for its own marks ("<|endoftext|>") and not for text.
_MARKS = re.compile(r"<\|.*?\|>")
# A window takes one to three passes; a model that stammers moves on by 20 ms at each.
_MAX_PASSES = 6


class _RunawayError(Exception):
    """A window took more passes than speech can need."""


class _BoundedModel(WhisperModel):  # type: ignore[misc]  # faster-whisper has no types
    """WhisperModel with a bound on the passes over one window."""

    def generate_with_fallback(
        self, encoder_output: Any, prompt: list[int], tokenizer: Any, options: Any
    ) -> Any:
        """Decode from one place of a window on; each window has a tokenizer of its own."""
        tokenizer.passes = getattr(tokenizer, "passes", 0) + 1
        if tokenizer.passes > _MAX_PASSES:
            raise _RunawayError
        return super().generate_with_fallback(encoder_output, prompt, tokenizer, options)


class Whisper:
    """Transcribes speech; synchronous, safe to call from several threads.

    Args:
        model: the loaded model.
        languages: ISO 639-1 codes that speech may be in; empty for any. One code saves the
            detection, and keeps a mumbled word from being read in another language.
        beam: width of the beam search.
    """

    def __init__(self, model: WhisperModel, languages: Sequence[str], beam: int = 3) -> None:
        known = set(model.supported_languages)
        if unknown := sorted(set(languages) - known):
            raise ConfigError(
                f"languages: the speech recognition model does not know {', '.join(unknown)}"
            )
        self._model = model
        self._languages = tuple(languages) if len(known) > 1 else tuple(known)
        self._beam = beam

    @classmethod
    def load(
        cls,
        models: ModelStore,
        name: str = DEFAULT_MODEL,
        *,
        languages: Sequence[str] = ("en",),
        threads: int = 2,
        workers: int = 1,
        beam: int = 3,
    ) -> Self:
        """Load from the model cache alone; nothing is looked up on a network.

        Args:
            models: where the CTranslate2 files of the model are, in the folder ``name``.
            name: ``whisper-tiny.en`` (English), ``whisper-base`` (99 languages), or any folder of
                the cache.
            languages: see the class.
            threads: cores for one transcription.
            workers: transcriptions at once.
            beam: see the class.

        Raises:
            E3RGError: ``model_missing``.
            ConfigError: for a language that the model does not know.
        """
        as_json = (models.root / name / "vocabulary.json").is_file()
        vocabulary = "vocabulary.json" if as_json else "vocabulary.txt"
        weights = models.path(f"{name}/model.bin")
        for file in ("config.json", "tokenizer.json", vocabulary):
            models.path(f"{name}/{file}")
        model = _BoundedModel(
            str(weights.parent),
            device="cpu",
            compute_type="int8",
            cpu_threads=threads,
            num_workers=workers,
            local_files_only=True,
        )
        # The voice activity net loads at its first use; that shall not be a person's first word.
        get_speech_timestamps(np.zeros(SPEECH_INPUT_RATE, np.float32), _VAD)
        return cls(model, languages, beam)

    def transcribe(self, audio: Pcm, stop: threading.Event | None = None) -> Transcript:
        """Transcribe speech.

        Args:
            audio: mono sound at 16 kHz.
            stop: when set, the work ends after the window (at most 17 s) at hand.

        Returns:
            The transcript; its confidence is the mean probability of a token, and 0 where no
            speech was found.

        Raises:
            E3RGError: ``audio_sample_rate`` (422).
        """
        stop = stop or threading.Event()
        heard = list(self.listen(ListenRequest(audio), stop))
        if not heard or stop.is_set():
            return Transcript("", self._languages[0] if self._languages else "en", 0.0)
        lengths = [max(segment.end - segment.start, 0.01) for segment in heard]
        likelihood = np.average([segment.log_probability for segment in heard], weights=lengths)
        text = " ".join(segment.text for segment in heard)
        timed = tuple(TimedText(segment.text, segment.start, segment.end) for segment in heard)
        return Transcript(text, heard[0].language, min(1.0, math.exp(float(likelihood))), timed)

    def listen(self, request: ListenRequest, stop: threading.Event) -> Iterator[HeardSegment]:
        """Recognise speech window by window (at most 17 s each).

        Args:
            request: the sound, at 16 kHz, and what is known of it.
            stop: when set, the work ends after the window at hand.

        Raises:
            E3RGError: ``audio_sample_rate`` (422), ``unsupported_language`` (param ``language``).
        """
        if request.audio.sample_rate != SPEECH_INPUT_RATE:
            raise E3RGError(
                "audio_sample_rate",
                f"audio is at {request.audio.sample_rate} Hz; resample it to {SPEECH_INPUT_RATE} "
                "Hz",
                param="audio",
                status=422,
            )
        self._check_language(request.language)
        samples = _level(request.audio)
        speech = get_speech_timestamps(samples, _VAD) if samples.size else []
        if not speech or stop.is_set():
            return
        language = request.language or self._language(samples, speech)
        for start, end in _windows(speech):
            with suppress(_RunawayError):
                for segment in self._decode(samples[start:end], language, request):
                    if stop.is_set():
                        return
                    if _credible(segment):
                        yield _place(segment, start, end, language)
            if stop.is_set():
                return

    def _check_language(self, language: str | None) -> None:
        known = sorted(self._model.supported_languages)
        if language is not None and language not in known:
            raise E3RGError(
                "unsupported_language",
                f"language {language[:32]!r} is not known to this model; it knows "
                f"{', '.join(known)}",
                param="language",
            )

    def _decode(
        self, samples: NDArray[np.float32], language: str, request: ListenRequest
    ) -> Iterable[Segment]:
        prompt = _MARKS.sub(" ", request.prompt[-_PROMPT_CHARS:]).strip()
        prompt = prompt.encode(errors="ignore").decode()
        if get_compression_ratio(prompt) > _MAX_COMPRESSION:
            prompt = ""  # the model would go on repeating it
        # One retry at most: each is a whole pass, and the caller waits.
        temperature = [request.temperature] if request.temperature else [0.0, 0.4]
        segments, _ = self._model.transcribe(
            samples,
            language=language,
            beam_size=self._beam,
            temperature=temperature,
            best_of=1,
            compression_ratio_threshold=_MAX_COMPRESSION,
            # Otherwise one misheard window poisons all that follow.
            condition_on_previous_text=False,
            initial_prompt=prompt or None,
            word_timestamps=request.words,
            max_new_tokens=_MAX_TOKENS,
        )
        return cast(Iterable[Segment], segments)

    def _language(self, samples: NDArray[np.float32], speech: list[dict[str, Any]]) -> str:
        if len(self._languages) == 1:
            return self._languages[0]
        chunks, _ = collect_chunks(samples, speech)
        best, _, every = self._model.detect_language(audio=np.concatenate(chunks))
        if not self._languages:
            return str(best)
        scores: dict[str, float] = dict(every)
        return max(self._languages, key=lambda code: scores.get(code, 0.0))


def _windows(speech: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Stretches of speech (start and end in samples) joined while they fit into a window."""
    longest = int((_WINDOW_S + 2) * SPEECH_INPUT_RATE)
    windows: list[tuple[int, int]] = []
    for chunk in speech:
        start, end = int(chunk["start"]), int(chunk["end"])
        if windows and end - windows[-1][0] <= longest:
            windows[-1] = (windows[-1][0], end)
        else:
            windows.append((start, end))
    return windows


def _credible(segment: Segment) -> bool:
    rate = len(segment.text) / max(segment.end - segment.start, 0.1)
    loop = segment.compression_ratio > _MAX_COMPRESSION and rate > _MAX_LETTERS_A_SECOND
    heard = segment.avg_logprob >= _MIN_LOG_PROBABILITY
    return heard and not loop and any(letter.isalnum() for letter in segment.text)


def _place(segment: Segment, start: int, end: int, language: str) -> HeardSegment:
    """A segment with its times from the audio's start, within the window."""

    def timed(text: str, begin: float, finish: float) -> TimedText:
        offset, last = start / SPEECH_INPUT_RATE, end / SPEECH_INPUT_RATE
        begin, finish = (round(float(min(offset + t, last)), 3) for t in (begin, finish))
        return TimedText(text.strip(), begin, max(begin, finish))

    whole = timed(segment.text, segment.start, segment.end)
    return HeardSegment(
        text=whole.text,
        start=whole.start,
        end=whole.end,
        language=language,
        words=tuple(timed(each.word, each.start, each.end) for each in segment.words or ()),
        tokens=tuple(segment.tokens),
        log_probability=float(segment.avg_logprob),
        compression=float(segment.compression_ratio),
        no_speech=float(segment.no_speech_prob),
        temperature=float(segment.temperature or 0.0),
    )


def _level(audio: Pcm) -> NDArray[np.float32]:
    """Samples from -1 to 1, brought to a usual level: far microphones are very quiet."""
    samples = np.frombuffer(audio.data, "<i2", count=audio.samples).astype(np.float32) / 32768.0
    if not samples.size:
        return samples
    samples -= samples.mean(dtype=np.float64)
    peak = float(np.abs(samples).max())
    if peak < _QUIET_PEAK:
        return np.empty(0, np.float32)
    return samples * np.float32(min(_LOUD_PEAK / peak, 50.0)) if peak < _LOUD_PEAK else samples
