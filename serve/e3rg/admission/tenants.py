"""What admission keeps of each tenant; bounded, those that are at rest go first."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Literal

from e3rg.admission.budgets import Budget, SpendSource
from e3rg.admission.contracts import Limits
from e3rg.admission.rates import Rates


@dataclass(slots=True)
class TenantState:
    """One tenant.

    Attributes:
        limits: as the last request had them.
        rates: its token buckets.
        budget: its quotas.
        running: turns and calls that run.
        sessions: realtime sessions.
        asking: requests that have no answer yet.
    """

    budget: Budget
    limits: Limits = field(default_factory=Limits)
    rates: Rates = field(default_factory=Rates)
    running: int = 0
    sessions: int = 0
    asking: int = 0

    def count(self, kind: Literal["turn", "call", "session"], by: int) -> None:
        """One lease more, or less."""
        if kind == "session":
            self.sessions += by
        else:
            self.running += by

    @property
    def busy(self) -> bool:
        """Whether as many turns and calls run as may."""
        limit = self.limits.concurrent_turns
        return limit is not None and self.running >= limit

    @property
    def at_rest(self) -> bool:
        """Whether nothing of it runs or waits."""
        return not (self.running or self.sessions or self.asking or self.budget.reserved)


class TenantStates:
    """The tenants, least recently seen first.

    Args:
        source: the usage records.
        most: how many are kept; one that is forgotten begins with full token buckets again, and its
            quotas are read anew.
    """

    def __init__(self, source: SpendSource, most: int) -> None:
        self._source = source
        self._most = most
        self._states: OrderedDict[str, TenantState] = OrderedDict()

    def of(self, tenant: str, now: float) -> TenantState:
        """A tenant's state, made where there is none.

        Args:
            tenant: its id.
            now: seconds of a monotonic clock.
        """
        state = self._states.get(tenant)
        if state is None:
            self._shrink(now)
            state = self._states[tenant] = TenantState(Budget(tenant, self._source))
        self._states.move_to_end(tenant)
        return state

    def all(self) -> tuple[tuple[str, TenantState], ...]:
        """Every tenant that is known."""
        return tuple(self._states.items())

    def _shrink(self, now: float) -> None:
        if len(self._states) < self._most:
            return
        # What is not at rest is bounded by the queue and the capacity. One with full buckets loses
        # nothing; another would have its rate given back.
        resting = [name for name, state in self._states.items() if state.at_rest]
        full = (name for name in resting if self._states[name].rates.full(now))
        chosen = next(full, resting[0] if resting else None)
        if chosen is not None:
            del self._states[chosen]
