"""What is kept of each turn: enough to go on with a conversation, and to answer GET /v1/turns/{id}.

Sound and pictures of the speaker are never kept.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import JSON, Float, Index, String, Text, delete, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from e3rg.records.database import Base, Database
from e3rg.tenancy import LOCAL


class TurnRecord(Base):
    """One turn, finished or cut short.

    Attributes:
        id: the turn.
        tenant: whose.
        conversation: its conversation.
        user: the speaker's name for the caller, or None.
        identity: the listener's id.
        created: Unix time, seconds.
        status: ``completed``, ``failed`` or ``cancelled``.
        text: what was said.
        reply: what was answered, as far as it came.
        detail: emotion, delivery, memory, usage, timings, degradations, error (JSON).
    """

    __tablename__ = "turns"
    __table_args__ = (Index("turns_by_conversation", "conversation", "created"),)

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(48), default=LOCAL, index=True)
    conversation: Mapped[str] = mapped_column(String(64))
    user: Mapped[str | None] = mapped_column(String(256), index=True)
    identity: Mapped[str] = mapped_column(String(64))
    created: Mapped[float] = mapped_column(Float, default=time.time, index=True)
    status: Mapped[str] = mapped_column(String(16))
    text: Mapped[str] = mapped_column(Text)
    reply: Mapped[str] = mapped_column(Text)
    detail: Mapped[dict[str, Any]] = mapped_column(JSON)


class TurnStore:
    """The turns of all conversations.

    Args:
        database: where they are kept.
        keep: newest turns kept; older ones are deleted as new ones come.
    """

    _PRUNE_EVERY = 200

    def __init__(self, database: Database, keep: int = 100_000) -> None:
        database.create(TurnRecord)
        self._database = database
        self._keep = keep
        self._saved = 0

    async def save(self, record: TurnRecord) -> None:
        """Store a turn; replaces one of the same id.

        Raises:
            E3RGError: ``disk_full`` (507).
        """

        def work(session: Session) -> None:
            session.merge(record)
            self._saved += 1
            if self._saved % self._PRUNE_EVERY == 0:
                newest = select(TurnRecord.id).order_by(TurnRecord.created.desc()).limit(self._keep)
                session.execute(delete(TurnRecord).where(TurnRecord.id.not_in(newest)))

        await self._database.run(work)

    async def get(self, turn: str) -> TurnRecord | None:
        """A turn by id."""
        return await self._database.run(lambda session: session.get(TurnRecord, turn))

    async def set_reply(self, turn: str, reply: str) -> TurnRecord | None:
        """Change a turn's reply to what was heard of it.

        Returns:
            The record as it is now, or None if there is none.
        """

        def work(session: Session) -> TurnRecord | None:
            record = session.get(TurnRecord, turn)
            if record is not None:
                record.reply = reply
            return record

        return await self._database.run(work)

    async def conversation(
        self, conversation: str, user: str | None, limit: int
    ) -> list[TurnRecord]:
        """The newest turns of a user's conversation that have a reply, oldest first.

        Nobody reads another user's turns by naming the conversation.
        """

        def work(session: Session) -> list[TurnRecord]:
            query = (
                select(TurnRecord)
                .where(
                    TurnRecord.conversation == conversation,
                    TurnRecord.user == user if user is not None else TurnRecord.user.is_(None),
                    TurnRecord.reply != "",
                )
                .order_by(TurnRecord.created.desc())
                .limit(limit)
            )
            return list(session.scalars(query))[::-1]

        return await self._database.run(work)
