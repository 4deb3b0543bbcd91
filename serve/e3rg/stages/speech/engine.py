"""Speech: emotional text-to-speech, one sentence at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from e3rg.emotions.types import Delivery
from e3rg.media.types import Pcm, Phoneme

Accent = Literal["us", "uk"]
Gender = Literal["female", "male"]

MIN_SPEED, MAX_SPEED = 0.25, 2.5
"""Faster speech is not understood any more: Whisper tiny.en misses no more than one word in ten at
2.5, four in ten at 3 and eight in ten at 4."""


@dataclass(frozen=True, slots=True)
class VoiceInfo:
    """A voice of the engine.

    Attributes:
        id: what a request names, e.g. ``af_heart``.
        name: for people, e.g. ``Heart``.
        gender: ``female`` or ``male``.
        accent: ``us`` or ``uk``.
    """

    id: str
    name: str
    gender: Gender
    accent: Accent


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """One sentence to speak.

    Attributes:
        text: any text; numbers, dates, money and addresses are spoken as people say them.
        voice: voice id of the engine.
        delivery: emotion of the voice.
        speed: MIN_SPEED to MAX_SPEED, multiplies the delivery's own rate.
    """

    text: str
    voice: str
    delivery: Delivery
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class SpeechSegment:
    """Spoken text.

    Attributes:
        audio: mono sound at the engine's rate; empty when the text has nothing to speak.
        phonemes: in order, none beyond the audio's end; gaps are silence.
    """

    audio: Pcm
    phonemes: tuple[Phoneme, ...]


class SpeechEngine(Protocol):
    """Text-to-speech with known voices."""

    async def synthesize(self, request: SpeechRequest) -> SpeechSegment:
        """Speak one sentence. Cancelling the awaiting task stops the synthesis itself.

        Raises:
            E3RGError: ``unknown_voice`` (param ``voice``).
        """
        ...

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """The voices that a request may name; at least one."""
        ...
