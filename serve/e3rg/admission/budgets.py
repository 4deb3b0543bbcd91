"""Quotas: what a tenant may spend in a period; reserved before, settled after.

The truth is in the usage records, which whoever does the work writes. Here is what they said last,
and what is reserved for work under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from e3rg.admission.contracts import Limits, Period, Spend

log = logging.getLogger(__name__)


class SpendSource(Protocol):
    """The usage records."""

    async def spent(self, works: Sequence[str]) -> Mapping[str, Spend]:
        """What turns and calls have spent, by id; those that spent nothing may be missing."""
        ...

    async def in_period(self, tenant: str, since: float, exclude_works: Sequence[str]) -> Spend:
        """What a tenant has spent since a Unix time, but for some turns and calls."""
        ...


class Budget:
    """One tenant's quotas.

    Args:
        tenant: whose.
        source: the usage records.
    """

    def __init__(self, tenant: str, source: SpendSource) -> None:
        self._tenant = tenant
        self._source = source
        self._lock = asyncio.Lock()
        self._spent = Spend()
        self._reserved: dict[str, Spend] = {}
        self._doubtful: set[str] = set()
        self._since: float | None = None

    @property
    def reserved(self) -> Mapping[str, Spend]:
        """What is reserved, by turn or call."""
        return self._reserved

    @property
    def spent(self) -> Spend:
        """What the records said last, with what was settled since."""
        return self._spent

    async def load(self, period: Period, now: float) -> None:
        """Make sure that what was spent in this period is known.

        Args:
            period: of the quotas.
            now: Unix time.

        Raises:
            Exception: as the source does, if it cannot be read.
        """
        since = period_start(period, now)
        if self._since == since:
            return
        async with self._lock:  # those who come meanwhile wait for one reading
            if self._since != since:
                await self._read(since)

    async def reconcile(self) -> None:
        """Read again: work that was cut short may write after it was settled."""
        async with self._lock:
            if self._since is not None:
                await self._read(self._since)

    def exceeded(self, limits: Limits, estimate: Spend) -> str | None:
        """The unit of which there is too little left, or None.

        There is no waiting here: nobody comes between this and ``reserve``. What needs nothing of
        a unit passes, also where that unit is used up.
        """
        for unit, most in limits.quota.items():
            held = sum(getattr(each, unit) for each in self._reserved.values())
            wanted = getattr(estimate, unit)
            if wanted and getattr(self._spent, unit) + held + wanted > most:
                return unit
        return None

    def reserve(self, work: str, estimate: Spend) -> None:
        """Set aside what a turn or call may spend."""
        self._reserved[work] = estimate

    def release(self, work: str) -> None:
        """Give back a reservation of which nothing was spent."""
        self._reserved.pop(work, None)
        self._doubtful.discard(work)

    async def settle(self, work: str) -> None:
        """Replace a reservation by what was spent.

        What is settled after its period's end counts in the next one until ``reconcile``.
        """
        if work not in self._reserved:
            return
        async with self._lock:
            estimate = self._reserved.get(work)
            if estimate is None:
                return
            try:
                if work in self._doubtful and self._since is not None:
                    await self._read(self._since, over=work)
                else:
                    self._spent += (await self._source.spent([work])).get(work, Spend())
            except Exception as error:
                # Nothing is given away: the estimate counts until the records are read again.
                log.warning("spending of %s is not known yet: %s", work, error)
                self._spent += estimate
            self._reserved.pop(work, None)
            self._doubtful.discard(work)

    async def _read(self, since: float, over: str | None = None) -> None:
        """Read what was spent, but for what is under way.

        What begins while the records are read may have spent something that is in the sum, or not:
        when it ends the records are read again, and until then too much is counted, not too little.
        """
        under_way = frozenset(self._reserved) - {over}
        self._spent = await self._source.in_period(self._tenant, since, tuple(under_way))
        self._since = since
        self._doubtful = set(self._reserved) - under_way - {over}


def period_start(period: Period, now: float) -> float:
    """When the period began that a Unix time is in, in UTC."""
    day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return (day if period == "day" else day.replace(day=1)).timestamp()


def period_end(period: Period, now: float) -> float:
    """When the next period begins."""
    start = datetime.fromtimestamp(period_start(period, now), UTC)
    if period == "day":
        return (start + timedelta(days=1)).timestamp()
    return (start.replace(day=28) + timedelta(days=4)).replace(day=1).timestamp()
