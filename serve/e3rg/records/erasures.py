"""Users who were erased: what was under way at that moment must not come back after it."""

from __future__ import annotations

from sqlalchemy import Float, String
from sqlalchemy.orm import Mapped, mapped_column

from e3rg.records.database import Base


class ErasureRow(Base):
    """One erasure; holds a hash of the user's name, since the name itself is to go.

    Attributes:
        tenant: whose user.
        user_hash: SHA-256 of tenant and user, hex.
        erased: Unix time, seconds; what began before it is not stored any more.
    """

    __tablename__ = "erasures"

    tenant: Mapped[str] = mapped_column(String(48), primary_key=True)
    user_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    erased: Mapped[float] = mapped_column(Float)
