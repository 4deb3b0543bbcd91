"""From a conversation to a turn: what was said, what came before, and how to answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from e3rg.emotions.types import Delivery
from e3rg.errors import E3RGError
from e3rg.gateway.conversation import Resumed
from e3rg.gateway.new_turn import new_turn
from e3rg.gateway.realtime.config import MAX_INSTRUCTIONS, ResponseParams, Settings
from e3rg.gateway.realtime.items import Item, lines, pending
from e3rg.gateway.realtime.wanted import Wanted
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
    conversation: str
    earlier: Resumed
    video: bool


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
        E3RGError: ``unknown_voice`` or ``instructions_too_long``.
    """
    wanted, limits = Wanted(context.settings, params), services.profile.turn
    said = pending(items)
    alone: Item | None = None
    for item in items:
        # One voice alone is heard by the turn; words beside it would keep the turn from listening.
        may_wait = len(said) == 1 and item is said[0] and not item.text
        if item.unheard and not await hear(item, may_wait):
            alone = item
    audio = _voice(said)
    frames = _frames(said)
    text = " ".join(item.text for item in said if item.text)[-limits.max_text_chars :]
    identity = context.earlier.identity
    if wanted.voice is not None:
        identity = replace(identity, voice=await find_voice(services, wanted.voice, "voice"))
    tokens = wanted.max_output_tokens
    turn = new_turn(
        limits,
        identity,
        conversation=context.conversation,
        max_tokens=None if tokens == "inf" else tokens,
    )
    extension = context.settings.e3rg
    request = replace(
        turn,
        text=None if alone is not None else text or SILENCE,
        audio=audio,
        frames=frames,
        history=_history(context, params, items, said, limits.history_turns),
        user=extension.user,
        reply_with=_modality(context, wanted),
        policy=extension.policy,
        previous=previous,
        speed=context.settings.audio.output.speed,
        instructions=_instructions(wanted, items),
        may_degrade=extension.degrade == "allow",
    )
    for item in said:
        item.forget_pictures()
        if item is not alone:
            item.forget_voices()
    return request, alone


def _modality(context: Context, wanted: Wanted) -> Modality:
    if not wanted.spoken:
        return Modality.TEXT
    return Modality.VIDEO if context.video else Modality.AUDIO


def _history(
    context: Context, params: ResponseParams, items: list[Item], said: list[Item], turns: int
) -> tuple[Message, ...]:
    before = [item for item in items if item not in said]
    earlier = list(context.earlier.history) if params.input is None else []
    return tuple((earlier + lines(before))[-2 * turns :]) if turns else ()


def _instructions(wanted: Wanted, items: list[Item]) -> str:
    told = [item.text for item in items if item.role == "system"]
    instructions = " ".join(filter(None, [wanted.instructions.strip(), *told]))
    if len(instructions) > MAX_INSTRUCTIONS:
        raise E3RGError(
            "instructions_too_long",
            f"the instructions and the system's items have {len(instructions)} characters; at most "
            f"{MAX_INSTRUCTIONS} are taken",
            param="instructions",
        )
    return instructions


def _voice(said: list[Item]) -> Pcm | None:
    """The newest sound that was said; it carries emotion also where its words are known."""
    if not said:
        return None
    voices = [voice.data for voice in said[-1].voices]
    return Pcm(_PAUSE.join(voices), SPEECH_INPUT_RATE) if voices else None


def _frames(said: list[Item]) -> tuple[bytes, ...]:
    return tuple(picture for item in said for picture in item.pictures)[-_MAX_FRAMES:]
