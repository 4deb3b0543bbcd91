"""Understanding: what was said, and what the speaker feels."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from e3rg.emotions.types import Emotion
from e3rg.media.types import Pcm
from e3rg.messages import Message


@dataclass(frozen=True, slots=True)
class TimedText:
    """A stretch of transcript, in seconds from the start of the audio."""

    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """Recognised speech.

    Attributes:
        text: the whole transcript; empty when no speech was found.
        language: ISO 639-1 code.
        confidence: 0 to 1.
        segments: the transcript with times.
    """

    text: str
    language: str
    confidence: float
    segments: tuple[TimedText, ...] = ()


@dataclass(frozen=True, slots=True)
class ListenRequest:
    """Speech to be written down while it is recognised.

    Attributes:
        audio: mono sound at 16 kHz.
        language: ISO 639-1 code of what is spoken; None to find out.
        prompt: text that came before, or that shows the spelling of names; only its end is read.
        temperature: 0 to 1 of the sampling; 0 decodes greedily, and tries again where that fails.
        words: whether each word's time is wanted.
    """

    audio: Pcm
    language: str | None = None
    prompt: str = ""
    temperature: float = 0.0
    words: bool = False


@dataclass(frozen=True, slots=True)
class HeardSegment:
    """One recognised stretch, in seconds from the start of the audio.

    Attributes:
        text: its words, never blank.
        start: when it begins.
        end: when it ends, not before ``start``.
        language: ISO 639-1 code.
        words: each word with its time, where asked for.
        tokens: the model's tokens of the text.
        log_probability: mean of the tokens'.
        compression: length of the text over its compressed length; loops compress well.
        no_speech: probability that nobody speaks.
        temperature: at which it was decoded.
    """

    text: str
    start: float
    end: float
    language: str
    words: tuple[TimedText, ...] = ()
    tokens: tuple[int, ...] = ()
    log_probability: float = 0.0
    compression: float = 1.0
    no_speech: float = 0.0
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class Utterance:
    """Everything known of one thing that a speaker said.

    Attributes:
        text: the words (typed, or transcribed).
        audio: the voice at 16 kHz, or None.
        frames: JPEG stills of the speaker, oldest first; may be empty.
        history: earlier lines, oldest first.
    """

    text: str
    audio: Pcm | None = None
    frames: tuple[bytes, ...] = ()
    history: tuple[Message, ...] = ()


class UnderstandingEngine(Protocol):
    """Speech recognition and emotion recognition."""

    async def transcribe(self, audio: Pcm) -> Transcript:
        """Transcribe speech at 16 kHz. Silence gives an empty text, not an error."""
        ...

    def listen(self, request: ListenRequest) -> AsyncGenerator[HeardSegment, None]:
        """Recognise speech at 16 kHz, giving each segment as soon as it is known.

        Silence gives none. Closing the generator stops the work after the window at hand.

        Raises:
            E3RGError: ``unsupported_language`` (param ``language``).
        """
        ...

    async def recognize(self, utterance: Utterance) -> Emotion:
        """Recognise the speaker's emotion from every modality that is present."""
        ...
