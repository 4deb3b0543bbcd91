"""Requests that a client may send again: the second finds what the first has done."""

from __future__ import annotations

from sqlalchemy import Float, String
from sqlalchemy.orm import Mapped, mapped_column

from e3rg.records.database import Base


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
