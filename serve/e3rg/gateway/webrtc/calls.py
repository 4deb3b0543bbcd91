"""The calls of this gateway replica, by id."""

from __future__ import annotations

import asyncio
from typing import Any

from e3rg.errors import E3RGError
from e3rg.gateway.catalog import Model
from e3rg.gateway.services import Services
from e3rg.gateway.webrtc.call import Call
from e3rg.gateway.webrtc.offer import Offer

_CLOSE_S = 20.0


class Calls:
    """Makes, finds and ends calls.

    Args:
        services: the gateway's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._running: dict[str, tuple[Call, asyncio.Task[None]]] = {}

    async def begin(
        self, model: Model, offer: Offer, session: dict[str, Any] | None
    ) -> tuple[str, str]:
        """Answer an offer.

        Returns:
            The call's id and the SDP answer.

        Raises:
            E3RGError: ``overloaded`` (503), or as Call.answer.
        """
        place = self._services.sessions.take()
        place.use()
        try:
            await self._services.admitter.session(place)
        except BaseException:
            place.release()
            raise
        call = Call(self._services, model, place, offer, session)
        answer = await call.answer()
        task = asyncio.create_task(call.run(), name=call.id)
        self._running[call.id] = call, task
        task.add_done_callback(lambda _: self._running.pop(call.id, None))
        return call.id, answer

    async def hang_up(self, call_id: str) -> None:
        """End a call.

        Raises:
            E3RGError: ``call_not_found`` (404), also where another replica has it.
        """
        if call_id not in self._running:
            raise E3RGError(
                "call_not_found",
                f"this server has no call {call_id[:64]!r}; it may have ended",
                param="call_id",
                status=404,
            )
        call, task = self._running[call_id]
        call.hang_up("hung up by request")
        await asyncio.wait({task}, timeout=_CLOSE_S)

    async def close(self) -> None:
        """End all calls."""
        running = tuple(self._running.values())
        for call, _ in running:
            call.hang_up("the server stops")
        if running:
            await asyncio.wait({task for _, task in running}, timeout=_CLOSE_S)
