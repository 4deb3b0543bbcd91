"""An admission controller over records in memory, for tests of its rules."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from e3rg.admission.contracts import Ask, Decision, Lease, Limits, Offer, Priority, Refusal, Spend
from e3rg.admission.controller import AdmissionController
from e3rg.config import AdmissionConfig

_ids = itertools.count()


class Records:
    """Usage records that a test writes; slow or broken where it says so."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, Spend]] = []
        self.fault: Exception | None = None
        self.pause_s = 0.0
        self.reads = 0

    def write(self, tenant: str, work: str, spend: Spend) -> None:
        self.rows.append((tenant, work, spend))

    async def spent(self, works: Sequence[str]) -> Mapping[str, Spend]:
        await self._ready()
        found: dict[str, Spend] = {}
        for _, work, spend in self.rows:
            if work in works:
                found[work] = found.get(work, Spend()) + spend
        return found

    async def in_period(self, tenant: str, since: float, exclude_works: Sequence[str]) -> Spend:
        rows = [row for row in self.rows if row[0] == tenant and row[1] not in exclude_works]
        await self._ready()
        return sum((spend for _, _, spend in rows), Spend())

    async def _ready(self) -> None:
        self.reads += 1
        await asyncio.sleep(self.pause_s)
        if self.fault is not None:
            raise self.fault


def controller(records: Records | None = None, **settings: Any) -> AdmissionController:
    """One with room for two turns at once, unless told otherwise."""
    adopt_s = settings.pop("adopt_s", 0.0)
    wall = settings.pop("wall", None)
    config = AdmissionConfig(**{"capacity": {"dialogue": 2.0}, **settings})
    more = {} if wall is None else {"wall": wall}
    return AdmissionController(config, records or Records(), adopt_s, **more)


def ask(tenant: str = "a", **fields: Any) -> Ask:
    """A turn of one unit of dialogue, that waits for five seconds at most."""
    one = Offer("text", {"dialogue": 1.0}, fields.pop("estimate", Spend()))
    offers = fields.pop("offers", (one,))
    return Ask(
        fields.pop("id", f"turn_{next(_ids)}"),
        tenant,
        fields.pop("limits", Limits()),
        fields.pop("kind", "turn"),
        offers,
        **{"queue_s": 5.0, "degrade_s": 5.0, "priority": Priority.INTERACTIVE, **fields},
    )


async def leased(admission: AdmissionController, *asks: Ask) -> list[Lease]:
    """Leases that must be given."""
    got = [await admission.admit(each) for each in asks]
    assert all(isinstance(each, Lease) for each in got), got
    return [each for each in got if isinstance(each, Lease)]


def outcomes(decisions: Sequence[Decision]) -> Counter[str]:
    """How many of each answer."""
    return Counter(
        str(each.outcome) if isinstance(each, Refusal) else "admitted" for each in decisions
    )


async def settled(admission: AdmissionController) -> None:
    """Check that nothing is held, reserved or waiting."""
    async with asyncio.timeout(10):
        while True:
            stats = await admission.stats()
            if not (stats.leases or any(stats.used.values()) or stats.reserved):
                break
            await asyncio.sleep(0.01)
    assert not any(stats.waiting.values())
