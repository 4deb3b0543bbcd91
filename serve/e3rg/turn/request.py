"""A turn as every protocol asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from e3rg.emotions.table import ListenerPolicy
from e3rg.emotions.types import Delivery
from e3rg.identities.types import Identity
from e3rg.media.types import Pcm
from e3rg.messages import Message
from e3rg.tenancy import LOCAL


class Modality(StrEnum):
    """What a reply may be made of; each needs the ones before it."""

    TEXT = "text"
    AUDIO = "audio"
    VIDEO = "video"


@dataclass(frozen=True, slots=True)
class Concession:
    """What a turn gives up before it begins; the fields are those of events.Degraded."""

    wanted: str
    given: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What somebody said, and how the answer shall be given.

    Attributes:
        id: unique id of the turn.
        conversation: id of the conversation.
        tenant: whose speaker, identity and memory these are.
        user: who speaks, or None for nobody known (then nothing is remembered).
        identity: the listener.
        text: typed words; None when only audio was given.
        audio: the voice at 16 kHz, or None.
        frames: JPEG stills of the speaker's camera.
        history: earlier lines, oldest first.
        reply_with: the richest modality wanted.
        policy: how the listener's expression follows the speaker's emotion.
        previous: the listener's expression at the end of the last turn, to move on from.
        seed: head motion and blinks follow from it.
        reply_seed: makes the reply's words repeatable; None lets the engine be faster.
        max_tokens: bound of the reply.
        temperature: of the language model's sampling.
        top_p: the same; None for the engine's own.
        frequency_penalty: the same.
        presence_penalty: the same.
        stop: the reply ends before any of these.
        speed: of the voice, see SpeechRequest.
        instructions: what the application asks of the listener, beside the listener's own profile.
        max_sentences: the reply ends after so many sentences, so that it never ends in the midst
            of one; a small model does not stop by itself.
        deadline: Unix time at which the turn ends, done or not.
        still: the video is one picture, with the sound.
        concession: told as the turn begins.
        may_degrade: give less than asked, and say so, when a stage cannot deliver.
        work: id that is admitted and metered, where a turn is tried more than once.
    """

    id: str
    conversation: str
    identity: Identity
    deadline: float
    text: str | None = None
    audio: Pcm | None = None
    frames: tuple[bytes, ...] = ()
    history: tuple[Message, ...] = ()
    tenant: str = LOCAL
    user: str | None = None
    reply_with: Modality = Modality.VIDEO
    policy: ListenerPolicy = ListenerPolicy.EMPATHISE
    previous: Delivery | None = None
    seed: int = 0
    reply_seed: int | None = None
    max_tokens: int = 120
    temperature: float = 0.3
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: tuple[str, ...] = ()
    speed: float = 1.0
    instructions: str = ""
    max_sentences: int = 4
    still: bool = False
    concession: Concession | None = None
    may_degrade: bool = True
    work: str = ""

    @property
    def metered(self) -> str:
        """The id under which it is admitted and its usage is recorded."""
        return self.work or self.id
