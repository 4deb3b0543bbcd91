"""What each call of a stage has spent, written where it is spent."""

from __future__ import annotations

import time

from sqlalchemy import BigInteger, Float, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from e3rg.records.database import Base


class UsageRow(Base):
    """One call of a stage.

    Attributes:
        id: of the call, made by whoever did the work.
        work: the turn or call of the API that it belongs to.
        tenant: who pays.
        user: the tenant's user, or None.
        created: Unix time, seconds, of its end.
        stage: which did the work.
        prompt_tokens: and so on: see admission.contracts.Spend.
    """

    __tablename__ = "usage"
    __table_args__ = (Index("usage_by_tenant", "tenant", "created"),)

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    work: Mapped[str] = mapped_column(String(64), index=True)
    tenant: Mapped[str] = mapped_column(String(48))
    user: Mapped[str | None] = mapped_column(String(256))
    created: Mapped[float] = mapped_column(Float, default=time.time)
    stage: Mapped[str] = mapped_column(String(32))
    prompt_tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    completion_tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    audio_in_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    audio_out_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    video_frames: Mapped[int] = mapped_column(BigInteger, default=0)
