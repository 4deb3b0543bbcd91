"""Who changed what; rows are only ever added."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import JSON, Float, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from e3rg.records.database import Base


class AuditRow(Base):
    """One change.

    Attributes:
        id: in the order of writing.
        created: Unix time, seconds.
        actor: id of the key, or ``cli`` for the command line.
        tenant: whose things were changed.
        action: e.g. ``key.create``, ``user.erase``.
        target: id of what was changed.
        detail: what was set, never a secret nor anybody's words (JSON).
    """

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    created: Mapped[float] = mapped_column(Float, default=time.time, index=True)
    actor: Mapped[str] = mapped_column(String(64))
    tenant: Mapped[str] = mapped_column(String(48), index=True)
    action: Mapped[str] = mapped_column(String(64))
    target: Mapped[str] = mapped_column(String(256))
    detail: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
