"""Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) over tenants, in classes.

A request's start tag is the time at which an ideal server, shared by weight, would begin it; the
lowest tag goes first. A tenant that was idle gathers no credit, and one that asks for more than its
share waits behind its own requests, not in front of others'.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from e3rg.admission.contracts import Priority

T = TypeVar("T")

_IDLE_LINES = 16


@dataclass(slots=True, eq=False)
class Entry(Generic[T]):
    """What waits.

    Attributes:
        tenant: whose.
        priority: its class.
        item: what it is.
        start, finish: its tags.
        order: of arrival.
    """

    tenant: str
    priority: Priority
    item: T
    start: float
    finish: float
    order: int


@dataclass(slots=True)
class _Line(Generic[T]):
    """A tenant's requests of one class, first come first served."""

    weight: float
    finish: float = 0.0
    waiting: deque[Entry[T]] = field(default_factory=deque)


class FairQueue(Generic[T]):
    """What waits for room, of all tenants; bounded."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._clock = dict.fromkeys(Priority, 0.0)
        self._lines: dict[Priority, dict[str, _Line[T]]] = {each: {} for each in Priority}
        self._orders = itertools.count()
        self._depth = dict.fromkeys(Priority, 0)

    def __len__(self) -> int:
        return sum(self._depth.values())

    def depth(self, priority: Priority) -> int:
        """How many of a class wait."""
        return self._depth[priority]

    def waiting(self, tenant: str) -> int:
        """How many of a tenant wait."""
        return sum(len(lines[tenant].waiting) for lines in self._lines.values() if tenant in lines)

    def push(
        self, tenant: str, priority: Priority, weight: float, cost: float, item: T
    ) -> Entry[T]:
        """Add a request behind its tenant's others.

        Args:
            tenant: whose.
            priority: its class.
            weight: the tenant's share, above 0.
            cost: how much work it is, of any unit.
            item: what it is.

        Raises:
            ValueError: if the weight or the cost is not above 0, or not finite.
        """
        if not (0 < weight < math.inf and 0 < cost < math.inf):
            raise ValueError(f"weight {weight} and cost {cost} must be finite and above 0")
        line = self._lines[priority].setdefault(tenant, _Line(weight))
        line.weight = weight
        start = max(self._clock[priority], line.finish)
        line.finish = start + cost / weight
        entry = Entry(tenant, priority, item, start, line.finish, next(self._orders))
        line.waiting.append(entry)
        self._depth[priority] += 1
        return entry

    @property
    def full(self) -> bool:
        """Whether somebody has to give way to one more."""
        return len(self) >= self._most

    def victim(self, tenant: str, priority: Priority, weight: float) -> Entry[T] | None:
        """Who gives way to one more of a tenant when it is full.

        The newest of the lowest class below the newcomer's; else the newest of the tenant that
        holds most for its weight. None, if that is the newcomer itself.
        """
        for lower in reversed(Priority):
            newest = [line.waiting[-1] for line in self._lines[lower].values() if line.waiting]
            if lower > priority and newest:
                return max(newest, key=lambda entry: entry.start)
        held = {
            name: len(line.waiting) / line.weight
            for name, line in self._lines[priority].items()
            if line.waiting
        }
        if not held:
            return None
        most = max(held, key=lambda name: held[name])
        if most == tenant or held.get(tenant, 0.0) + 1 / weight >= held[most]:
            return None
        return self._lines[priority][most].waiting[-1]

    def heads(self, priority: Priority) -> Iterator[Entry[T]]:
        """The first of each tenant, in the order in which they are to be served."""
        lines = self._lines[priority].values()
        heads = [line.waiting[0] for line in lines if line.waiting]
        return iter(sorted(heads, key=lambda entry: (entry.start, entry.order)))

    def served(self, entry: Entry[T]) -> None:
        """A request is served: it leaves, and the class's clock is at its start tag."""
        self._clock[entry.priority] = max(self._clock[entry.priority], entry.start)
        self._out(entry)

    def remove(self, entry: Entry[T]) -> bool:
        """A request leaves unserved; what its tenant would have paid for it is given back.

        Returns:
            Whether it was still there.
        """
        line = self._lines[entry.priority].get(entry.tenant)
        if line is None or entry not in line.waiting:
            return False
        cost = entry.finish - entry.start
        behind = False
        for other in line.waiting:
            if behind:
                other.start -= cost
                other.finish -= cost
            behind = behind or other is entry
        line.finish -= cost
        self._out(entry)
        return True

    def _out(self, entry: Entry[T]) -> None:
        lines = self._lines[entry.priority]
        lines[entry.tenant].waiting.remove(entry)
        self._depth[entry.priority] -= 1
        if not self._depth[entry.priority]:
            # Nobody waits: the class begins anew, and keeps nothing of anybody. What runs is
            # bounded by capacity, not by the tags.
            lines.clear()
            self._clock[entry.priority] = 0.0
        elif len(lines) > 2 * self._depth[entry.priority] + _IDLE_LINES:
            self._forget_idle(entry.priority)

    def _forget_idle(self, priority: Priority) -> None:
        """Drop tenants that wait for nothing and owe nothing."""
        lines, clock = self._lines[priority], self._clock[priority]
        for name in [each for each, line in lines.items() if not line.waiting]:
            if lines[name].finish <= clock:
                del lines[name]
