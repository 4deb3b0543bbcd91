"""What a turn works with, and what it has come to."""

from __future__ import annotations

from dataclasses import dataclass, field

from e3rg.emotions.types import Delivery, Emotion
from e3rg.stages.avatar.engine import AvatarEngine
from e3rg.stages.dialogue.engine import DialogueEngine, FinishReason
from e3rg.stages.memory.engine import MemoryEngine, Retrieval
from e3rg.stages.speech.engine import SpeechEngine
from e3rg.stages.understanding.engine import UnderstandingEngine
from e3rg.turn.events import Degraded, Usage


@dataclass(frozen=True, slots=True)
class Stages:
    """The engines, or clients of their deployments."""

    understanding: UnderstandingEngine
    memory: MemoryEngine
    dialogue: DialogueEngine
    speech: SpeechEngine
    avatar: AvatarEngine


@dataclass(slots=True)
class TurnState:
    """What a turn has come to so far; valid at any moment, also after it was cut short."""

    text: str = ""
    reply: str = ""
    emotion: Emotion | None = None
    delivery: Delivery | None = None
    retrieval: Retrieval = field(default_factory=Retrieval)
    usage: Usage = field(default_factory=Usage)
    timings: dict[str, float] = field(default_factory=dict)
    finish_reason: FinishReason = "stop"
    degraded: list[Degraded] = field(default_factory=list)
    status: str = "in_progress"
