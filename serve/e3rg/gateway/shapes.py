"""The native protocol's JSON as types: wire.py makes them, the OpenAPI document shows them."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

from e3rg.emotions.types import Category, Expression
from e3rg.stages.dialogue.engine import FinishReason

Status = Literal["completed", "failed", "cancelled"]
"""How a turn ended."""


class Fault(TypedDict):
    """What went wrong: OpenAI's error object."""

    message: str
    type: str
    param: str | None
    code: str


class Error(TypedDict):
    """The body of every error."""

    error: Fault


class Segment(TypedDict):
    """A stretch of transcript, in seconds from the recording's start."""

    text: str
    start: float
    end: float


class Transcript(TypedDict):
    """What was heard; for audio and video."""

    text: str
    language: str
    confidence: float
    segments: list[Segment]


class Score(TypedDict):
    """One modality's own opinion."""

    confidence: float
    categories: dict[Category, float]


class Listener(TypedDict):
    """What the listener shows, 0 to 1 strong."""

    expression: Expression
    intensity: float


class Emotion(TypedDict):
    """What the speaker feels: one of 32 labels and of 8 categories; what the listener shows."""

    label: str
    category: Category
    intensity: float
    confidence: float
    categories: dict[Category, float]
    modalities: dict[str, Score]
    listener: Listener


class Exemplar(TypedDict):
    """How somebody answered in a like situation."""

    id: str
    emotion: str
    situation: str
    similarity: float


class Episode(TypedDict):
    """What this user told before; ``created`` is Unix time."""

    id: str
    emotion: str
    text: str
    created: float
    similarity: float


class Memory(TypedDict):
    """What the reply's prompt holds from memory."""

    exemplars: list[Exemplar]
    episodes: list[Episode]


class Usage(TypedDict):
    """What the turn spent."""

    prompt_tokens: int
    completion_tokens: int
    audio_seconds_in: float
    audio_seconds_out: float
    video_frames: int


class TurnCreated(TypedDict):
    """The turn was accepted. Always the first event."""

    id: str
    conversation: str
    identity: str


class TextDelta(TypedDict):
    """A piece of the reply's text."""

    text: str


class AudioChunk(TypedDict):
    """One spoken piece; times in seconds of the turn, ``data`` is base64 of PCM16, mono."""

    text: str
    start: float
    duration: float
    format: Literal["pcm16"]
    sample_rate: int
    data: str


class VideoSegment(TypedDict):
    """Picture and sound; all ``data`` (base64) joined are one fragmented MP4 file.

    ``start`` is null in the last one, which may hold the end of the sound alone.
    """

    start: float | None
    frames: int
    mime: str
    data: str


class Degraded(TypedDict):
    """From here on the reply is less than was asked for."""

    wanted: str
    given: str
    code: str
    message: str


class TurnCompleted(TypedDict):
    """The whole reply is out; ``timings`` are seconds from the start to each milestone."""

    text: str
    finish_reason: FinishReason
    timings: dict[str, float]


class Said(TypedDict):
    """What the speaker said."""

    text: str


class Loss(TypedDict):
    """Where the reply was less than was asked for."""

    wanted: str
    given: str
    code: str
    reason: str


class Turn(TypedDict):
    """A turn that has ended; ``created`` is Unix time, ``video`` the path of its MP4."""

    id: str
    object: Literal["turn"]
    conversation: str
    user: str | None
    identity: str
    created: float
    status: Status
    input: Said
    text: str
    emotion: Emotion | None
    memory: Memory
    usage: Usage
    timings: dict[str, float]
    degraded: list[Loss]
    error: Fault | None
    video: str | None


class Identity(TypedDict):
    """A listener; ``portrait`` is the path of its picture."""

    id: str
    object: Literal["identity"]
    name: str
    gender: str
    age: str
    voice: str
    profile: str
    portrait: str


class Identities(TypedDict):
    """All listeners; ``default`` answers if none is asked for."""

    object: Literal["list"]
    default: str
    data: list[Identity]


class Alive(TypedDict):
    """The process lives."""

    status: Literal["ok"]


class Readiness(TypedDict):
    """Each stage is ``ok``, or what is wrong with it."""

    status: Literal["ready", "not_ready"]
    stages: dict[str, str]


EVENTS: dict[str, Any] = {
    "turn.created": TurnCreated,
    "transcript": Transcript,
    "emotion": Emotion,
    "memory": Memory,
    "text.delta": TextDelta,
    "audio.chunk": AudioChunk,
    "video.segment": VideoSegment,
    "degraded": Degraded,
    "usage": Usage,
    "turn.completed": TurnCompleted,
    "error": Error,
}
"""Each server-sent event's data by its name, in the order in which they can first come."""
