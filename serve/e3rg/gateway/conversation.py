"""Going on with a conversation: its history, its listener, and the look on the listener's face."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from e3rg.emotions.types import Delivery, Expression
from e3rg.errors import E3RGError
from e3rg.gateway.services import Services
from e3rg.identities.types import Identity
from e3rg.messages import Message
from e3rg.records.turns import TurnRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a conversation stands."""

    identity: Identity
    history: tuple[Message, ...]
    delivery: Delivery | None


async def resume(
    services: Services, conversation: str | None, user: str | None, identity: str | None
) -> Resumed:
    """Look up a conversation; an unknown or missing id starts a new one.

    Args:
        services: the stores.
        conversation: its id.
        user: who speaks; a conversation is its user's alone.
        identity: the listener asked for; otherwise the conversation's own, or the default one.

    Raises:
        E3RGError: ``unknown_identity``.
    """
    kept = services.profile.turn.history_turns
    turns: list[TurnRecord] = []
    if conversation is not None:
        turns = await services.turns.conversation(conversation, user, max(kept, 1))
    chosen = await _listener(services, identity, turns[-1].identity if turns else None)
    history: list[Message] = []
    for turn in turns[-kept:] if kept else ():
        history += [Message("user", turn.text), Message("assistant", turn.reply)]
    return Resumed(chosen, tuple(history), _delivery(turns[-1]) if turns else None)


async def _listener(services: Services, asked: str | None, before: str | None) -> Identity:
    if asked is None and before is not None:
        try:
            return await services.listener(before)
        except E3RGError:
            log.info("the conversation's listener %s is gone; the default one goes on", before)
    return await services.listener(asked)


def _delivery(turn: TurnRecord) -> Delivery | None:
    emotion = turn.detail.get("emotion")
    if not emotion:
        return None
    listener = emotion["listener"]
    return Delivery(Expression(listener["expression"]), float(listener["intensity"]))
