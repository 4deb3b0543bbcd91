"""Leases for what this replica does, from the one admission of the whole system."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from e3rg import attribution, deadline
from e3rg.admission.contracts import (
    HEARTBEATS,
    Admission,
    Ask,
    Lease,
    Limits,
    Offer,
    Outcome,
    Priority,
    RateState,
    Refusal,
    Spend,
)
from e3rg.admission.limits import limits_from
from e3rg.config import AdmissionConfig
from e3rg.errors import E3RGError
from e3rg.gateway.estimates import conceded, turn_offers
from e3rg.gateway.ids import new_id
from e3rg.gateway.places import Place
from e3rg.telemetry import metrics
from e3rg.turn.request import TurnRequest

log = logging.getLogger(__name__)

_SETTLE_TRIES, _SETTLE_PAUSE_S = 5, 0.5


class Directory(Protocol):
    """Knows what tenants may do."""

    async def limits(self, tenant: str) -> Limits:
        """A tenant's limits, a few seconds old at most.

        Raises:
            E3RGError: ``tenant_suspended`` (403).
        """
        ...


class ProfileLimits:
    """A directory for a system without tenants: everybody has the profile's limits.

    Args:
        config: the profile's.

    Raises:
        ValueError: naming the limit that is wrong.
    """

    def __init__(self, config: AdmissionConfig) -> None:
        self._limits = limits_from(config.limits)

    async def limits(self, _: str) -> Limits:
        """See Directory.limits."""
        return self._limits


@dataclass(slots=True)
class RateBox:
    """Where a request's rate is put, for the headers of its answer."""

    state: RateState | None = None


rate_box: ContextVar[RateBox | None] = ContextVar("e3rg_rate_box", default=None)


@dataclass(slots=True)
class _Held:
    ask: Ask
    offer: int


@dataclass(slots=True)
class Admitter:
    """Asks for leases, renews those that are held, and gives them back.

    Args:
        admission: the system's.
        directory: the tenants.
        config: the profile's.
    """

    admission: Admission
    directory: Directory
    config: AdmissionConfig
    holder: str = field(default_factory=lambda: new_id("gateway"))
    _held: dict[str, _Held] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _renewing: asyncio.Task[None] | None = None

    @property
    def held(self) -> int:
        """Leases that this replica holds."""
        return len(self._held)

    async def turn(
        self, request: TurnRequest, place: Place, priority: Priority | None = None
    ) -> TurnRequest:
        """Wait until a turn may begin; its lease is given back with its place.

        Returns:
            The turn, with less than it asked for where there is no room for all of it.

        Raises:
            E3RGError: ``rate_limit_exceeded`` or ``insufficient_quota`` (429), ``overloaded`` or
                ``admission_unavailable`` (503).
        """
        offers = turn_offers(request)
        offer = await self._lease(
            place, request.metered, request.tenant, "turn", offers, priority, request.deadline
        )
        return conceded(request, offers[offer].name)

    async def call(self, place: Place, stage: str, estimate: Spend) -> None:
        """Wait until a call of one stage alone may begin; as ``turn``.

        The caller's task works for this call from here on.
        """
        who = attribution.current()
        work = new_id("call")
        offers = (Offer(stage, {stage: 1.0}, estimate),)
        await self._lease(place, work, who.tenant, "call", offers, None, deadline.current())
        attribution.adopt(replace(who, work=work))

    async def session(self, place: Place) -> None:
        """Count a realtime session as one of its tenant's; as ``turn``."""
        tenant = attribution.current().tenant
        offers = (Offer("session", {}),)
        await self._lease(place, new_id("session"), tenant, "session", offers, None, None)

    async def close(self) -> None:
        """Give back what is held; waits a bounded time."""
        if self._renewing is not None:
            self._renewing.cancel()
        for lease in tuple(self._held):
            self._give_back(lease)
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=_SETTLE_TRIES * _SETTLE_PAUSE_S)

    async def _lease(
        self,
        place: Place,
        work: str,
        tenant: str,
        kind: Any,
        offers: tuple[Offer, ...],
        priority: Priority | None,
        due: float | None,
    ) -> int:
        limits = await self.directory.limits(tenant)
        wait = self.config.queue_s
        if due is not None:
            wait = min(wait, max(due - time.time(), 0.0))
        ask = Ask(
            work,
            tenant,
            limits,
            kind,
            offers,
            limits.priority if priority is None else priority,
            wait,
            min(self.config.degrade_s, wait),
            self.holder,
        )
        try:
            decision = await self.admission.admit(ask)
        except BaseException:
            # It may have been given at this very moment.
            self._give_back(work)
            raise
        if (box := rate_box.get()) is not None and kind != "session":
            box.state = decision.rate
        if isinstance(decision, Refusal):
            raise refused(decision)
        self._hold(ask, decision)
        place.attach(lambda: self._give_back(work))
        return decision.offer

    def _hold(self, ask: Ask, lease: Lease) -> None:
        self._held[lease.id] = _Held(ask, lease.offer)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(), name="leases")

    def _give_back(self, lease: str) -> None:
        self._held.pop(lease, None)
        with contextlib.suppress(RuntimeError):  # the loop ends, and the lease with it
            self._spawn(self._settle(lease))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            task = asyncio.create_task(work)
        except RuntimeError:
            work.close()
            raise
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, lease: str) -> None:
        for attempt in range(1, _SETTLE_TRIES + 1):
            try:
                await self.admission.settle(lease)
                return
            except Exception as error:
                if attempt == _SETTLE_TRIES:
                    # It is not renewed any more, so it expires.
                    log.warning("lease %s could not be given back: %s", lease, error)
                    return
            await asyncio.sleep(_SETTLE_PAUSE_S)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self.config.lease_s / HEARTBEATS)
            held = [(each.ask, each.offer) for each in self._held.values()]
            try:
                async with asyncio.timeout(self.config.lease_s / HEARTBEATS):
                    await self.admission.renew(self.holder, held)
            except Exception as error:
                log.warning("leases could not be renewed: %s", error or type(error).__name__)


def refused(refusal: Refusal) -> E3RGError:
    """A refusal as the API's answer."""
    code, status = _ANSWERS[refusal.outcome]
    metrics.REJECTED.labels(code).inc()
    retry = refusal.retry_after_s if status in {429, 503} else None
    return E3RGError(code, refusal.message, status=status, retry_after=retry)


_ANSWERS = {
    Outcome.RATE_LIMITED: ("rate_limit_exceeded", 429),
    Outcome.CONCURRENCY_LIMITED: ("rate_limit_exceeded", 429),
    Outcome.QUOTA_EXCEEDED: ("insufficient_quota", 429),
    Outcome.QUEUE_FULL: ("overloaded", 503),
    Outcome.QUEUE_TIMEOUT: ("overloaded", 503),
    Outcome.NEVER_FITS: ("request_too_large", 400),
    Outcome.CANCELLED: ("client_closed", 499),
    Outcome.UNAVAILABLE: ("admission_unavailable", 503),
}
