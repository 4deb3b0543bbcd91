"""Going on with a conversation: its history, its listener, and the look on the listener's face."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from e3rg.emotions.types import Delivery, Expression
from e3rg.gateway.services import Services
from e3rg.identities.types import Identity
from e3rg.messages import Message
from e3rg.records.turns import TurnRecord


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a conversation stands."""

    identity: Identity
    history: tuple[Message, ...]
    delivery: Delivery | None


async def resume(services: Services, conversation: str | None, identity: str | None) -> Resumed:
    """Look up a conversation; an unknown or missing id starts a new one.

    Args:
        services: the stores.
        conversation: its id.
        identity: the listener asked for; otherwise the conversation's own, or the default one.

    Raises:
        E3RGError: ``unknown_identity``.
    """
    turns: list[TurnRecord] = []
    if conversation is not None:
        turns = await services.turns.conversation(conversation, services.profile.turn.history_turns)
    name = identity or (turns[-1].identity if turns else services.identities.default().id)
    chosen = await asyncio.to_thread(services.identities.get, name)
    history: list[Message] = []
    for turn in turns:
        history += [Message("user", turn.text), Message("assistant", turn.reply)]
    return Resumed(chosen, tuple(history), _delivery(turns[-1]) if turns else None)


def _delivery(turn: TurnRecord) -> Delivery | None:
    emotion = turn.detail.get("emotion")
    if not emotion:
        return None
    listener = emotion["listener"]
    return Delivery(Expression(listener["expression"]), float(listener["intensity"]))
