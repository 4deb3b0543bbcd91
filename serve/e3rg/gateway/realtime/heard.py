"""A reply that was interrupted is remembered as far as it was heard."""

from __future__ import annotations

import logging

from e3rg.errors import E3RGError
from e3rg.gateway.realtime.response import Response
from e3rg.gateway.services import Services
from e3rg.stages.memory.engine import Episode
from e3rg.turn.calls import call

log = logging.getLogger(__name__)

_REMEMBER_S = 10.0


async def keep_heard(services: Services, response: Response | None, turn: str, reply: str) -> None:
    """Cut a recorded reply to what was heard, for later conversations and for memory.

    Args:
        response: that gave it, if it may not be recorded yet.
        turn: the recorded turn.
        reply: the words that were heard.
    """
    if response is not None:
        await response.settled()
    try:
        record = await services.turns.set_reply(turn, reply)
        emotion = record.detail.get("emotion") if record is not None else None
        if record is not None and record.user is not None and emotion:
            episode = Episode(
                id=record.id,
                user=record.user,
                conversation=record.conversation,
                text=record.text,
                reply=reply,
                emotion=emotion["label"],
                created=record.created,
            )
            await call("memory", services.stages.memory.remember(episode), _REMEMBER_S)
    except E3RGError as error:
        log.warning("turn %s was not cut to what was heard: %s", turn, error.message)
