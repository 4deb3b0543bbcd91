"""Tenants and their keys; of a key only a hash is kept."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import JSON, Float, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from e3rg.records.database import Base


class TenantRow(Base):
    """One tenant.

    Attributes:
        id: see e3rg.tenancy.TENANT_ID.
        name: for people.
        created: Unix time, seconds.
        status: ``active`` or ``suspended``.
        limits: fields of admission.contracts.Limits that are set (JSON).
    """

    __tablename__ = "tenants"

    id: Mapped[str] = mapped_column(String(48), primary_key=True)
    name: Mapped[str] = mapped_column(String(256))
    created: Mapped[float] = mapped_column(Float, default=time.time)
    status: Mapped[str] = mapped_column(String(16), default="active")
    limits: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)


class KeyRow(Base):
    """One API key.

    Attributes:
        id: public, e.g. ``key_…``.
        tenant: whose.
        name: for people.
        prefix: the key's first characters, to recognise it by.
        hash: SHA-256 of the key, hex; the key has 256 random bits, so no salt is needed.
        scopes: see e3rg.tenancy.Scope (JSON list).
        user: the only user it may speak for, or None.
        created: Unix time; also ``expires`` and ``revoked``, or None.
        replaces: id of the key that it was rotated from, or None.
    """

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    tenant: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    name: Mapped[str] = mapped_column(String(256), default="")
    prefix: Mapped[str] = mapped_column(String(16))
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list[str]] = mapped_column(JSON)
    user: Mapped[str | None] = mapped_column(String(256))
    created: Mapped[float] = mapped_column(Float, default=time.time)
    expires: Mapped[float | None] = mapped_column(Float)
    revoked: Mapped[float | None] = mapped_column(Float)
    replaces: Mapped[str | None] = mapped_column(String(64))
