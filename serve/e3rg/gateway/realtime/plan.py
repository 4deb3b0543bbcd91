"""From a conversation to a turn: what was said, what came before, and how to answer."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from e3rg.emotions.table import ListenerPolicy
from e3rg.emotions.types import Delivery
from e3rg.errors import E3RGError
from e3rg.gateway.catalog import Model
from e3rg.gateway.conversation import Resumed, resume
from e3rg.gateway.realtime.config import ResponseParams, Settings, voice_name
from e3rg.gateway.realtime.events import new_id
from e3rg.gateway.realtime.items import Item, lines, pending
from e3rg.gateway.services import Services
from e3rg.gateway.voices import find_voice
from e3rg.media.types import SPEECH_INPUT_RATE, Pcm
from e3rg.messages import Message
from e3rg.turn.request import Modality, TurnRequest

SILENCE = "..."
"""What somebody said who said nothing: a reply was asked for by itself."""

_MAX_FRAMES = 8
Hear = Callable[[Item, bool], Awaitable[bool]]

_PAUSE = bytes(SPEECH_INPUT_RATE * 2 * 3 // 10)


@dataclass(frozen=True, slots=True)
class Context:
    """What a session brings to each of its turns.

    Attributes:
        conversation: the id under which its turns are recorded.
        earlier: where the recorded conversation stood when the session took it up.
        video: pictures are wanted.
    """

    settings: Settings
    model: Model
    conversation: str
    earlier: Resumed
    video: bool


async def take_up(
    services: Services,
    settings: Settings,
    model: Model,
    before: Settings,
    earlier: Resumed | None,
) -> Resumed:
    """Where the session's conversation stands after a change of settings.

    What is said in the session itself is not looked up again: its items hold it.

    Raises:
        E3RGError: ``unknown_identity``.
    """
    new, old = settings.e3rg, before.e3rg
    listener = new.identity or model.identity
    if earlier is None or (new.conversation, new.user) != (old.conversation, old.user):
        return await resume(services, new.conversation, new.user, listener)
    if new.identity == old.identity:
        return earlier
    return replace(earlier, identity=(await resume(services, None, None, listener)).identity)


async def check(services: Services, model: Model, settings: Settings) -> None:
    """Check names that only the running system knows.

    Raises:
        E3RGError: ``model_not_found``, ``unknown_voice`` or ``cannot_update_model``.
    """
    if settings.model is not None:
        named = await services.catalog.find(settings.model, "listener")
        if named.id != model.id:
            raise E3RGError(
                "cannot_update_model",
                f"the session's model is {model.id}; connect anew for another",
                param="session.model",
            )
    transcription = settings.audio.input.transcription
    if transcription is not None and transcription.model is not None:
        await services.catalog.find(transcription.model, "transcription")
    voice = voice_name(settings.audio.output.voice)
    if voice is not None:
        await find_voice(services, voice, "session.audio.output.voice")


async def plan(
    services: Services,
    context: Context,
    params: ResponseParams,
    items: list[Item],
    previous: Delivery | None,
    hear: Hear,
) -> tuple[TurnRequest, Item | None]:
    """Make the turn of a response.

    Args:
        items: the conversation, or the response's own input.
        previous: the listener's expression at the end of the last turn.
        hear: finds the words of an item's sound; False if the turn itself may do so.

    Returns:
        The turn, and the item whose words the turn itself will find.

    Raises:
        E3RGError: ``unknown_voice``.
    """
    settings, limits = context.settings, services.profile.turn
    said = pending(items)
    alone: Item | None = None
    for item in items:
        # One voice alone is heard by the turn; words beside it would keep the turn from listening.
        may_wait = len(said) == 1 and item is said[0] and not item.text
        if item.unheard and not await hear(item, may_wait):
            alone = item
    audio = _voice(said)
    frames = _frames(said)
    text = " ".join(item.text for item in said if item.text)
    identity = context.earlier.identity
    output = params.audio.output
    voice = voice_name(output.voice or settings.audio.output.voice)
    if voice is not None:
        identity = replace(identity, voice=await find_voice(services, voice, "voice"))
    asked = params.max_output_tokens or settings.max_output_tokens
    most = limits.max_reply_tokens
    request = TurnRequest(
        id=new_id("turn"),
        conversation=context.conversation,
        identity=identity,
        deadline=time.time() + limits.timeout_s,
        text=None if alone is not None else text or SILENCE,
        audio=audio,
        frames=frames,
        history=_history(context, params, items, said, limits.history_turns),
        user=settings.e3rg.user,
        reply_with=_modality(context, params),
        policy=ListenerPolicy(settings.e3rg.policy),
        previous=previous,
        seed=random.getrandbits(31),
        max_tokens=most if asked == "inf" else min(asked, most),
        temperature=limits.temperature,
        max_sentences=limits.max_reply_sentences,
        instructions=_instructions(settings, params, items),
        may_degrade=settings.e3rg.degrade == "allow",
    )
    for item in said:
        item.forget_pictures()
        if item is not alone:
            item.forget_voices()
    return request, alone


def _modality(context: Context, params: ResponseParams) -> Modality:
    if (params.output_modalities or context.settings.output_modalities) == ["text"]:
        return Modality.TEXT
    return Modality.VIDEO if context.video else Modality.AUDIO


def _history(
    context: Context, params: ResponseParams, items: list[Item], said: list[Item], turns: int
) -> tuple[Message, ...]:
    before = [item for item in items if item not in said]
    earlier = list(context.earlier.history) if params.input is None else []
    return tuple((earlier + lines(before))[-2 * turns :]) if turns else ()


def _instructions(settings: Settings, params: ResponseParams, items: list[Item]) -> str:
    own = settings.instructions if params.instructions is None else params.instructions
    told = [item.text for item in items if item.role == "system"]
    return " ".join(filter(None, [own.strip(), *told]))


def _voice(said: list[Item]) -> Pcm | None:
    """The newest sound that was said; it carries emotion also where its words are known."""
    if not said:
        return None
    voices = [voice.data for voice in said[-1].voices]
    return Pcm(_PAUSE.join(voices), SPEECH_INPUT_RATE) if voices else None


def _frames(said: list[Item]) -> tuple[bytes, ...]:
    return tuple(picture for item in said for picture in item.pictures)[-_MAX_FRAMES:]
