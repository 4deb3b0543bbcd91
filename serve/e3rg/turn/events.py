"""What a turn says while it happens. One turn ends in exactly one TurnCompleted or TurnFailed."""

from __future__ import annotations

from dataclasses import dataclass

from e3rg.emotions.types import Delivery, Emotion
from e3rg.errors import E3RGError
from e3rg.media.types import Pcm, Phoneme, VideoPacket
from e3rg.stages.dialogue.engine import FinishReason
from e3rg.stages.memory.engine import Retrieval
from e3rg.stages.understanding.engine import Transcript


@dataclass(frozen=True, slots=True)
class TurnCreated:
    """The turn was accepted."""

    turn: str
    conversation: str
    identity: str


@dataclass(frozen=True, slots=True)
class TranscriptReady:
    """What was heard in the speaker's audio."""

    transcript: Transcript


@dataclass(frozen=True, slots=True)
class EmotionRecognized:
    """The speaker's emotion, and how the listener will show its own."""

    emotion: Emotion
    delivery: Delivery


@dataclass(frozen=True, slots=True)
class MemoryUsed:
    """The exemplars and episodes that the reply's prompt holds."""

    retrieval: Retrieval


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the reply's text."""

    text: str


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """One spoken sentence.

    Attributes:
        text: the words that are spoken in it.
        audio: its sound, a whole number of video frames long.
        first_sample: its place in the turn.
        phonemes: seconds from the chunk's start.
    """

    text: str
    audio: Pcm
    first_sample: int
    phonemes: tuple[Phoneme, ...]


@dataclass(frozen=True, slots=True)
class VideoFrames:
    """Consecutive encoded frames, with exactly the sound that belongs to them.

    Where video cannot be had, the frames hold one picture (see Degraded).
    """

    packets: tuple[VideoPacket, ...]
    audio: Pcm
    first_frame: int


@dataclass(frozen=True, slots=True)
class Degraded:
    """From here on the reply is less than was asked for.

    Attributes:
        wanted: what is lost: a modality, ``emotion`` or ``memory``.
        given: what is given in its place: ``still``, a modality, ``neutral`` or ``none``.
        code: the failure's stable code.
        reason: one sentence for the person.
    """

    wanted: str
    given: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What the turn spent, counted where it was made."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    audio_seconds_in: float = 0.0
    audio_seconds_out: float = 0.0
    video_frames: int = 0


@dataclass(frozen=True, slots=True)
class UsageReported:
    """The turn's usage; sent once, before the end."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """The whole reply is out.

    Attributes:
        text: the whole reply.
        finish_reason: why the language model ended.
        timings: seconds from the turn's start to each milestone: ``transcript``, ``emotion``,
            ``memory``, ``first_token``, ``first_audio``, ``first_frame``, ``total``.
    """

    text: str
    finish_reason: FinishReason
    timings: dict[str, float]


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The turn ended early; what was sent before stays valid."""

    error: E3RGError


TurnEvent = (
    TurnCreated
    | TranscriptReady
    | EmotionRecognized
    | MemoryUsed
    | TextDelta
    | AudioChunk
    | VideoFrames
    | Degraded
    | UsageReported
    | TurnCompleted
    | TurnFailed
)
