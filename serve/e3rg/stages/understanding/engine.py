"""Understanding: what was said, and what the speaker feels."""

from __future__ import annotations

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

    async def recognize(self, utterance: Utterance) -> Emotion:
        """Recognise the speaker's emotion from every modality that is present."""
        ...
