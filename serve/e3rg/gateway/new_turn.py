"""Where every turn begins: what the profile says of turns, whichever protocol asks for one."""

from __future__ import annotations

import random

from e3rg.config import TurnConfig
from e3rg.gateway.access import principal
from e3rg.gateway.ids import new_id
from e3rg.gateway.time_limit import due
from e3rg.identities.types import Identity
from e3rg.turn.request import TurnRequest


def new_turn(
    limits: TurnConfig,
    identity: Identity,
    *,
    conversation: str | None = None,
    deadline: float | None = None,
    seed: int | None = None,
    max_tokens: int | None = None,
) -> TurnRequest:
    """A turn with the profile's bounds; a protocol adds by ``replace`` what was said and asked for.

    Args:
        limits: the profile's.
        identity: the listener.
        conversation: its id; a new one if None.
        deadline: Unix time; the profile's time limit from now if None.
        seed: repeats the reply's words, motion and blinks; None for chance.
        max_tokens: wanted; never more than the profile allows.
    """
    return TurnRequest(
        id=new_id("turn"),
        conversation=conversation or new_id("conv"),
        identity=identity,
        tenant=principal.current().tenant,
        deadline=due(limits) if deadline is None else deadline,
        # Motion takes seeds below 2**31.
        seed=random.getrandbits(31) if seed is None else seed % 2**31,
        reply_seed=seed,
        max_tokens=min(max_tokens or limits.max_reply_tokens, limits.max_reply_tokens),
        temperature=limits.temperature,
        max_sentences=limits.max_reply_sentences,
    )
