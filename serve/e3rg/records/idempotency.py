"""Requests that a client may send again: the second finds what the first has done."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import ColumnElement, Float, String, delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Mapped, Session, mapped_column

from e3rg.errors import E3RGError
from e3rg.records.database import Base, Database, changed


class IdempotencyRow(Base):
    """One ``Idempotency-Key``.

    Attributes:
        tenant: whose.
        key: as the client sent it.
        fingerprint: SHA-256 of the request (method, path, body), hex.
        target: id of the turn or video that it made.
        created: Unix time, seconds.
        expires: Unix time; the key may be used anew then.
    """

    __tablename__ = "idempotency"

    tenant: Mapped[str] = mapped_column(String(48), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    target: Mapped[str] = mapped_column(String(64))
    created: Mapped[float] = mapped_column(Float)
    expires: Mapped[float] = mapped_column(Float, index=True)


class IdempotencyStore:
    """The keys of all tenants.

    Args:
        database: where they are kept.
        keep_s: seconds for which a key is remembered.
        most: keys kept of one tenant; its oldest go first.
        clock: the time, for tests.
    """

    _PRUNE_EVERY = 200

    def __init__(
        self,
        database: Database,
        keep_s: float = 24 * 3600.0,
        most: int = 10_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._keep_s = keep_s
        self._most = most
        self._now = clock
        self._begun = 0

    async def begin(self, tenant: str, key: str, fingerprint: str, target: str) -> IdempotencyRow:
        """Take a key for a request, or find who has it.

        Args:
            tenant: whose.
            key: as the client sent it.
            fingerprint: of the request.
            target: id of what the request will make.

        Returns:
            The key's row: with this target if the key is free, else with that of the request
            before.

        Raises:
            E3RGError: ``idempotency_key_reused`` (422) if that was another request.
        """

        def work(session: Session) -> IdempotencyRow:
            now = self._now()
            row = IdempotencyRow(
                tenant=tenant,
                key=key,
                fingerprint=fingerprint,
                target=target,
                created=now,
                expires=now + self._keep_s,
            )
            # One statement inserts or finds: of two requests at once one is the first.
            session.execute(
                delete(IdempotencyRow).where(
                    IdempotencyRow.tenant == tenant,
                    IdempotencyRow.key == key,
                    IdempotencyRow.expires <= now,
                )
            )
            try:
                with session.begin_nested():
                    session.add(row)
                self._prune(session, tenant, now)
                return row
            except IntegrityError:
                found = session.get(IdempotencyRow, (tenant, key), populate_existing=True)
                if found is None:  # given back at this very moment
                    raise E3RGError(
                        "records_unavailable",
                        "the key was just given back; send the request again",
                        status=503,
                        retry_after=1,
                    ) from None
                return found

        found = await self._database.run(work)
        if found.fingerprint != fingerprint:
            raise E3RGError(
                "idempotency_key_reused",
                "this Idempotency-Key came with another request before; use a new key for each "
                "new request",
                param="Idempotency-Key",
                status=422,
            )
        return found

    async def take_over(self, row: IdempotencyRow, target: str) -> bool:
        """Give a key to a new attempt at the same request; False if somebody else was faster."""
        query = (
            update(IdempotencyRow)
            .where(*_same(row))
            .values(target=target, created=self._now(), expires=self._now() + self._keep_s)
        )
        return await self._database.run(lambda session: changed(session.execute(query)))

    async def give_back(self, row: IdempotencyRow) -> None:
        """Free a key whose request was refused before anything was done."""
        query = delete(IdempotencyRow).where(*_same(row))
        await self._database.run(lambda session: changed(session.execute(query)))

    def _prune(self, session: Session, tenant: str, now: float) -> None:
        self._begun += 1
        if self._begun % self._PRUNE_EVERY:
            return
        session.execute(delete(IdempotencyRow).where(IdempotencyRow.expires <= now))
        newest = (
            select(IdempotencyRow.key)
            .where(IdempotencyRow.tenant == tenant)
            .order_by(IdempotencyRow.created.desc())
            .limit(self._most)
        )
        session.execute(
            delete(IdempotencyRow).where(
                IdempotencyRow.tenant == tenant, IdempotencyRow.key.not_in(newest)
            )
        )


def _same(row: IdempotencyRow) -> tuple[ColumnElement[bool], ...]:
    return (
        IdempotencyRow.tenant == row.tenant,
        IdempotencyRow.key == row.key,
        IdempotencyRow.target == row.target,
    )
