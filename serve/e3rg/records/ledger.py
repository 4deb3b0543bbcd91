"""The usage records: written by whoever does the work, summed for quotas, people and exports."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from e3rg.admission.contracts import UNITS, Spend
from e3rg.attribution import Attribution
from e3rg.records.database import Database
from e3rg.records.usage import UsageRow

_MOST_IDS = 500
"""Ids in one statement: SQLite takes 32,766 variables, PostgreSQL 65,535."""


class UsageLedger:
    """Usage rows of every tenant; implements admission.budgets.SpendSource.

    Args:
        database: the records.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, who: Attribution, stage: str, spend: Spend, created: float | None = None
    ) -> None:
        """Write what one call of a stage has spent; nothing for the system's own work.

        Args:
            who: for whom it was.
            stage: which did the work.
            spend: what it took.
            created: Unix time of its end; now if None.

        Raises:
            E3RGError: as Database.run.
        """
        if not who.tenant or spend == Spend():
            return
        row = UsageRow(
            id=uuid.uuid4().hex,
            work=who.work,
            tenant=who.tenant,
            user=who.user,
            created=time.time() if created is None else created,
            stage=stage,
            **{unit: getattr(spend, unit) for unit in UNITS},
        )
        await self._database.run(lambda session: session.add(row))

    async def spent(self, works: Sequence[str]) -> Mapping[str, Spend]:
        """What turns and calls have spent so far, by id; those without rows are missing."""

        def read(session: Any) -> dict[str, Spend]:
            found: dict[str, Spend] = {}
            for first in range(0, len(works), _MOST_IDS):
                ids = works[first : first + _MOST_IDS]
                rows = session.execute(
                    _sums(UsageRow.work).where(UsageRow.work.in_(ids)).group_by(UsageRow.work)
                )
                found |= {row[0]: _spend(row[1:]) for row in rows}
            return found

        return await self._database.run(read)

    async def in_period(
        self, tenant: str, since: float, exclude_works: Sequence[str] = ()
    ) -> Spend:
        """What a tenant has spent since a Unix time, but for some turns and calls."""

        def read(session: Any) -> Spend:
            wanted = UsageRow.tenant == tenant, UsageRow.created >= since
            total = _spend(session.execute(_sums().where(*wanted)).one())
            for first in range(0, len(exclude_works), _MOST_IDS):
                some = UsageRow.work.in_(exclude_works[first : first + _MOST_IDS])
                total -= _spend(session.execute(_sums().where(*wanted, some)).one())
            return total

        return await self._database.run(read)


def _sums(*columns: Any) -> Select[Any]:
    sums: list[ColumnElement[Any]] = [
        func.coalesce(func.sum(getattr(UsageRow, unit)), 0) for unit in UNITS
    ]
    return select(*columns, *sums)


def _spend(values: Sequence[Any]) -> Spend:
    # PostgreSQL sums to Decimal.
    return Spend(*(int(value) for value in values))
