"""Admission: who may begin now, who waits, and who is refused.

Plain asyncio, one instance for the whole system; docs/admission.md tells the rules.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from e3rg.admission import answers
from e3rg.admission.budgets import SpendSource, period_end
from e3rg.admission.capacity import Capacity
from e3rg.admission.contracts import (
    Ask,
    Decision,
    Lease,
    Outcome,
    Priority,
    Refusal,
    Spend,
    Stats,
)
from e3rg.admission.fair_queue import Entry, FairQueue
from e3rg.admission.leases import Leases
from e3rg.admission.tenants import TenantState, TenantStates
from e3rg.config import AdmissionConfig

log = logging.getLogger(__name__)

_RECONCILE_S = 30.0


class Observer(Protocol):
    """Is told of every decision; for metrics."""

    def decided(self, ask: Ask, outcome: Outcome, waited_s: float, offer: int) -> None:
        """A request has its answer."""
        ...


@dataclass(slots=True, eq=False)
class _Claim:
    """A request that has no answer yet; whoever settles its id withdraws it."""

    ask: Ask
    arrived: float
    answer: asyncio.Future[Decision]
    entry: Entry[_Claim] | None = None

    def tell(self, decision: Decision) -> None:
        if not self.answer.done():
            self.answer.set_result(decision)


@dataclass(slots=True)
class _Pace:
    """How fast leases come back, to say when it may go better."""

    seconds: float = 2.0
    _share: float = 0.1

    def note(self, seconds: float) -> None:
        self.seconds += self._share * (seconds - self.seconds)


class AdmissionController:
    """Implements ``Admission`` (contracts.py) for the whole system.

    Args:
        config: room, queue and leases.
        source: the usage records, for quotas.
        adopt_s: it admits nobody for so long, while the gateways tell what they hold: it may have
            been restarted.
        observer: is told of every decision.
        wall: Unix time, for the quotas' periods.
    """

    def __init__(
        self,
        config: AdmissionConfig,
        source: SpendSource,
        adopt_s: float = 0.0,
        observer: Observer | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._capacity = Capacity(config.capacity)
        self._queue: FairQueue[_Claim] = FairQueue(config.max_queue)
        self._tenants = TenantStates(source, config.max_tenants)
        self._leases = Leases(self._capacity, config.lease_s)
        self._claims: dict[str, _Claim] = {}
        self._observer = observer
        self._wall = wall
        self._open_at = time.monotonic() + adopt_s
        self._pace = _Pace()
        self._tending: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ── what the gateways ask ───────────────────────────────────

    async def admit(self, ask: Ask) -> Decision:
        """See Admission.admit."""
        self._start()
        arrived = self._now()
        state = self._tenants.of(ask.tenant, arrived)
        state.asking += 1
        try:
            decision = await self._decide(ask, state, arrived)
        except asyncio.CancelledError:
            self._tell(ask, Outcome.CANCELLED, arrived, 0)
            raise
        finally:
            state.asking -= 1
        if isinstance(decision, Lease):
            self._tell(ask, Outcome.ADMITTED, arrived, decision.offer)
        else:
            self._tell(ask, decision.outcome, arrived, 0)
        return decision

    async def settle(self, lease: str) -> None:
        """See Admission.settle."""
        held = self._leases.held.get(lease)
        if held is not None:
            self._pace.note(self._now() - held.began)
            await self._end(lease)
            return
        self._leases.bury(lease)
        if (claim := self._claims.get(lease)) is not None:
            claim.tell(answers.cancelled())

    async def renew(self, holder: str, held: Sequence[tuple[Ask, int]]) -> None:
        """See Admission.renew."""
        self._start()
        now = self._now()
        for ask, index in held:
            if self._leases.is_over(ask.id) or self._leases.renew(ask.id, holder, now):
                continue
            if not 0 <= index < len(ask.offers):
                log.warning("%s renews a lease of an offer that there is not", holder)
                continue
            self._adopt(ask, index)

    async def stats(self) -> Stats:
        """See Admission.stats."""
        reserved = {
            name: sum(state.budget.reserved.values(), Spend())
            for name, state in self._tenants.all()
            if state.budget.reserved
        }
        return Stats(
            {each.name.lower(): self._queue.depth(each) for each in Priority},
            len(self._leases),
            dict(self._capacity.used),
            dict(self._capacity.limits),
            reserved,
            self._leases.expired,
        )

    def check(self) -> None:
        """Make sure that leases are tended.

        Raises:
            RuntimeError: if they are not, and never will be.
        """
        if self._tending is not None and self._tending.done():
            raise RuntimeError("leases are not tended any more")

    async def close(self) -> None:
        """Refuse whoever waits, and finish what ends."""
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.wait({self._tending})
        for claim in tuple(self._claims.values()):
            claim.tell(answers.unavailable("is being stopped"))
        if self._ending:
            await asyncio.wait(tuple(self._ending), timeout=self._config.lease_s)

    # ── a decision ──────────────────────────────────────────────

    async def _decide(self, ask: Ask, state: TenantState, arrived: float) -> Decision:
        if (held := self._leases.held.get(ask.id)) is not None:  # asked again after a lost answer
            if held.ask.holder != ask.holder:
                return answers.cancelled()
            return self._lease(ask, held.index, 0.0, state)
        if self._leases.is_over(ask.id) or ask.id in self._claims:
            return answers.cancelled()
        if not self._possible(ask):
            return answers.never_fits(ask, self._capacity)
        state.limits = ask.limits
        claim = _Claim(ask, arrived, asyncio.get_running_loop().create_future())
        self._claims[ask.id] = claim
        try:
            if ask.kind == "session":
                return await self._session(claim, state)
            if ask.limits.quota:
                try:
                    await state.budget.load(ask.limits.period, self._wall())
                except Exception as error:
                    log.warning("quotas of a tenant cannot be read: %s", error)
                    return answers.unavailable("cannot read the usage records")
            if claim.answer.done():  # withdrawn meanwhile
                return claim.answer.result()
            return await self._reserved(claim, state)
        finally:
            del self._claims[ask.id]

    async def _session(self, claim: _Claim, state: TenantState) -> Decision:
        """A session waits for nothing but the answer to who holds what."""
        await asyncio.sleep(max(self._open_at - self._now(), 0.0))
        if claim.answer.done():
            return claim.answer.result()
        ask = claim.ask
        state.rates.apply(ask.limits, self._now())
        limit = ask.limits.concurrent_sessions
        if limit is not None and state.sessions >= limit:
            return answers.too_many_sessions(limit, state.rates.state())
        for index in self._possible(ask):
            if not self._capacity.lacking(ask.offers[index].demand):
                return self._grant(claim, index, state)
        return self._full(state)

    async def _reserved(self, claim: _Claim, state: TenantState) -> Decision:
        """Take from the rate and the quota, and give back unless a lease comes of it.

        Until the wait nobody comes between what is looked at and what is taken.
        """
        ask, limits = claim.ask, claim.ask.limits
        state.rates.apply(limits, self._now())
        estimate = ask.offers[self._possible(ask)[0]].estimate
        if (unit := state.budget.exceeded(limits, estimate)) is not None:
            wait = period_end(limits.period, self._wall()) - self._wall()
            return answers.quota_exceeded(unit, limits, wait, state.rates.state())
        tokens = estimate.prompt_tokens + estimate.completion_tokens
        if wait := state.rates.take(tokens):
            return answers.rate_limited(wait, state.rates.state())
        if limits.quota:
            state.budget.reserve(ask.id, estimate)
        decision: Decision | None = None
        try:
            decision = await self._wait(claim, state)
            return decision
        finally:
            if not isinstance(decision, Lease) and ask.id not in self._leases.held:
                # Whoever is refused, or leaves, has spent nothing.
                state.rates.refund(tokens)
                state.budget.release(ask.id)

    async def _wait(self, claim: _Claim, state: TenantState) -> Decision:
        ask = claim.ask
        if (refusal := self._make_room(ask, state)) is not None:
            return refusal
        loop = asyncio.get_running_loop()
        cost = _cost(ask.offers[self._possible(ask)[0]].estimate)
        claim.entry = self._queue.push(ask.tenant, ask.priority, ask.limits.weight, cost, claim)
        timers = [loop.call_later(max(ask.queue_s, 0.0), self._give_up, claim)]
        if len(ask.offers) > 1:
            timers.append(loop.call_later(max(ask.degrade_s, 0.0) + 0.001, self._pump))
        if (closed := self._open_at - self._now()) > 0:
            timers.append(loop.call_later(closed + 0.001, self._pump))
        try:
            self._pump()
            return await claim.answer
        except asyncio.CancelledError:
            if ask.id in self._leases.held:  # given at the very moment of leaving
                self._spawn_end(ask.id)
            raise
        finally:
            for timer in timers:
                timer.cancel()
            if self._queue.remove(claim.entry):
                self._pump()  # it may have stood in others' way

    def _make_room(self, ask: Ask, state: TenantState) -> Refusal | None:
        if state.busy and self._queue.waiting(ask.tenant) >= (ask.limits.concurrent_turns or 0):
            return self._too_many(state)
        if not self._queue.full or self._could_begin(ask, state):
            return None
        victim = self._queue.victim(ask.tenant, ask.priority, ask.limits.weight)
        if victim is None:
            return self._full(state)
        self._queue.remove(victim)
        victim.item.tell(self._full(self._tenants.of(victim.tenant, self._now())))
        return None

    def _could_begin(self, ask: Ask, state: TenantState) -> bool:
        """Whether it would not have to wait; nobody who waits is passed."""
        open_ = self._now() >= self._open_at and not len(self._queue)
        return open_ and not state.busy and self._offer_for(ask, 0.0) is not None

    def _full(self, state: TenantState) -> Refusal:
        return answers.queue_full(self._retry_s(), state.rates.state())

    def _too_many(self, state: TenantState) -> Refusal:
        limit = state.limits.concurrent_turns or 0
        return answers.too_many_turns(limit, self._pace.seconds, state.rates.state())

    def _give_up(self, claim: _Claim) -> None:
        state = self._tenants.of(claim.ask.tenant, self._now())
        if state.busy:
            claim.tell(self._too_many(state))
        else:
            rate = state.rates.state()
            claim.tell(answers.queue_timeout(claim.ask.queue_s, self._retry_s(), rate))

    def _retry_s(self) -> float:
        """When there may be room: what waits, over how fast leases come back."""
        pace = max(len(self._leases), 1) / max(self._pace.seconds, 0.05)
        return min(max((len(self._queue) + 1) / pace, 1.0), 60.0)

    # ── who is next ─────────────────────────────────────────────

    def _pump(self) -> None:
        """Give leases for as long as somebody fits.

        The first in the queue goes first. Where it does not fit, the pools that it lacks are kept
        for it, and whoever needs none of them may pass: room is not left idle, and a large request
        is not starved by small ones.
        """
        if self._now() < self._open_at:
            return
        while (found := self._next()) is not None:
            entry, index = found
            claim = entry.item
            self._queue.served(entry)
            state = self._tenants.of(claim.ask.tenant, self._now())
            claim.tell(self._grant(claim, index, state))

    def _next(self) -> tuple[Entry[_Claim], int] | None:
        now = self._now()
        kept: set[str] = set()
        for priority in Priority:
            for entry in self._queue.heads(priority):
                claim = entry.item
                if claim.answer.done() or self._tenants.of(entry.tenant, now).busy:
                    continue
                index = self._offer_for(claim.ask, now - claim.arrived, frozenset(kept))
                if index is not None:
                    return entry, index
                best = self._possible(claim.ask)[0]
                kept |= self._capacity.lacking(claim.ask.offers[best].demand)
        return None

    def _possible(self, ask: Ask) -> list[int]:
        return [
            index
            for index, offer in enumerate(ask.offers)
            if self._capacity.can_ever_fit(offer.demand)
        ]

    def _offer_for(
        self, ask: Ask, waited_s: float, kept: frozenset[str] = frozenset()
    ) -> int | None:
        """The best offer that fits now; a poorer one only after a while."""
        possible = self._possible(ask)
        patient = waited_s < ask.degrade_s
        for index in possible[:1] if patient else possible:
            demand = ask.offers[index].demand
            needs = {pool for pool, units in demand.items() if units > 0}
            if not self._capacity.lacking(demand) and not needs & kept:
                return index
        return None

    # ── leases ──────────────────────────────────────────────────

    def _grant(self, claim: _Claim, index: int, state: TenantState) -> Lease:
        now = self._now()
        self._leases.begin(claim.ask, index, state, now)
        if claim.ask.id in state.budget.reserved:  # what is not given is not reserved
            state.budget.reserve(claim.ask.id, claim.ask.offers[index].estimate)
        return self._lease(claim.ask, index, now - claim.arrived, state)

    def _lease(self, ask: Ask, index: int, waited_s: float, state: TenantState) -> Lease:
        return Lease(ask.id, index, self._config.lease_s, waited_s, state.rates.state())

    def _adopt(self, ask: Ask, index: int) -> None:
        """Hold what a gateway says that it holds."""
        state = self._tenants.of(ask.tenant, self._now())
        state.limits = ask.limits
        self._leases.begin(ask, index, state, self._now())
        if ask.limits.quota and ask.kind != "session":
            state.budget.reserve(ask.id, ask.offers[index].estimate)
        if (claim := self._claims.get(ask.id)) is not None:
            claim.tell(self._lease(ask, index, self._now() - claim.arrived, state))

    async def _end(self, lease: str) -> None:
        held = self._leases.held.get(lease)
        if held is None:
            return
        state = self._tenants.of(held.ask.tenant, self._now())
        self._leases.end(lease, state)
        self._pump()
        await state.budget.settle(lease)

    def _spawn_end(self, lease: str) -> None:
        task = asyncio.ensure_future(self._end(lease))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    # ── time ────────────────────────────────────────────────────

    def _now(self) -> float:
        return time.monotonic()

    def _start(self) -> None:
        if self._tending is None:
            self._tending = asyncio.create_task(self._tend(), name="admission")

    async def _tend(self) -> None:
        """Take back leases that nobody renews; read again what was spent."""
        read = self._now()
        while True:
            await asyncio.sleep(self._config.lease_s / 4)
            now = self._now()
            for held in self._leases.run_out(now):
                log.warning("lease %s of %s has run out", held.ask.id, held.ask.holder)
                self._spawn_end(held.ask.id)
            if now - read > _RECONCILE_S:
                read = now
                await self._reconcile()

    async def _reconcile(self) -> None:
        for _, state in self._tenants.all():
            if not state.limits.quota:
                continue
            try:
                await state.budget.reconcile()
            except Exception as error:
                # What is known stays: it was exact but for work that was cut short.
                log.warning("the usage records cannot be read: %s", error)
                return

    def _tell(self, ask: Ask, outcome: Outcome, arrived: float, offer: int) -> None:
        if self._observer is not None:
            self._observer.decided(ask, outcome, self._now() - arrived, offer)


def _cost(estimate: Spend) -> float:
    """Work in usual turns: what is estimated over what a turn with video usually spends."""
    return (
        0.1
        + estimate.completion_tokens / 500
        + (estimate.audio_in_ms + estimate.audio_out_ms) / 60_000
        + estimate.video_frames / 1500
    )
