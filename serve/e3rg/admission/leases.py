"""Leases that are held, and the ids of those that are over: neither comes back by accident."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from e3rg.admission.capacity import Capacity
from e3rg.admission.contracts import Ask, Offer
from e3rg.admission.tenants import TenantState

_TOMBSTONES = 10_000


@dataclass(slots=True)
class Held:
    """A lease in use.

    Attributes:
        ask: what was asked.
        index: of the offer that was taken.
        began: seconds of a monotonic clock; also ``expires``.
    """

    ask: Ask
    index: int
    began: float
    expires: float

    @property
    def offer(self) -> Offer:
        """The offer that was taken."""
        return self.ask.offers[self.index]


class Leases:
    """What is held, counted against capacity and tenants.

    Args:
        capacity: of the pools.
        ttl_s: a lease that is not renewed for so long is over.
    """

    def __init__(self, capacity: Capacity, ttl_s: float) -> None:
        self._capacity = capacity
        self._ttl_s = ttl_s
        self._held: dict[str, Held] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        self.expired = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held(self) -> Mapping[str, Held]:
        """By id."""
        return self._held

    def is_over(self, lease: str) -> bool:
        """Whether it was given back, withdrawn or ran out."""
        return lease in self._gone

    def begin(self, ask: Ask, index: int, state: TenantState, now: float) -> None:
        """Hold a lease; its id must be new."""
        self._capacity.take(ask.offers[index].demand)
        state.count(ask.kind, 1)
        self._held[ask.id] = Held(ask, index, now, now + self._ttl_s)

    def renew(self, lease: str, holder: str, now: float) -> bool:
        """Keep a lease; False if it is unknown."""
        known = self._held.get(lease)
        if known is None:
            return False
        if known.ask.holder == holder:
            known.expires = now + self._ttl_s
        return True

    def end(self, lease: str, state: TenantState) -> None:
        """Free what a lease held; it must be held."""
        held = self._held.pop(lease)
        self._capacity.give_back(held.offer.demand)
        state.count(held.ask.kind, -1)
        self.bury(lease)

    def bury(self, lease: str) -> None:
        """An id that is never to be held (again); the oldest of many are forgotten."""
        self._gone[lease] = None
        while len(self._gone) > _TOMBSTONES:
            self._gone.popitem(last=False)

    def run_out(self, now: float) -> Iterator[Held]:
        """Those that nobody has renewed in time; the caller ends them."""
        for held in tuple(self._held.values()):
            if held.expires < now:
                self.expired += 1
                yield held
