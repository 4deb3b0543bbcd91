"""What is kept of each turn: enough to go on with a conversation, and to answer GET /v1/turns/{id}.

Sound and pictures of the speaker are never kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import JSON, Float, Index, String, Text, create_engine, delete, event, select
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from e3rg.errors import E3RGError

T = TypeVar("T")

log = logging.getLogger(__name__)


class Base(DeclarativeBase):
    """Tables of the records."""


class TurnRecord(Base):
    """One turn, finished or cut short.

    Attributes:
        id: the turn.
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
    conversation: Mapped[str] = mapped_column(String(64))
    user: Mapped[str | None] = mapped_column(String(256), index=True)
    identity: Mapped[str] = mapped_column(String(64))
    created: Mapped[float] = mapped_column(Float, default=time.time, index=True)
    status: Mapped[str] = mapped_column(String(16))
    text: Mapped[str] = mapped_column(Text)
    reply: Mapped[str] = mapped_column(Text)
    detail: Mapped[dict[str, Any]] = mapped_column(JSON)


class TurnStore:
    """The turns of all conversations, in any database that SQLAlchemy knows.

    Args:
        url: e.g. ``sqlite:////path/e3rg.db``.
        keep: newest turns kept; older ones are deleted as new ones come.
    """

    _PRUNE_EVERY = 200
    _MAX_WAITING = 64
    _TIMEOUT_S = 15.0

    def __init__(self, url: str, keep: int = 100_000) -> None:
        self._engine = _connect(url)
        Base.metadata.create_all(self._engine)
        self._keep = keep
        self._saved = 0
        self._waiting = 0
        # One writer is what SQLite allows; it also bounds the connections.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="records")

    def close(self) -> None:
        """Finish what was begun and close the database."""
        self._executor.shutdown(wait=True)
        self._engine.dispose()

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

        await self._run(work)

    async def get(self, turn: str) -> TurnRecord | None:
        """A turn by id."""
        return await self._run(lambda session: session.get(TurnRecord, turn))

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

        return await self._run(work)

    async def _run(self, work: Callable[[Session], T]) -> T:
        def transaction() -> T:
            with Session(self._engine, expire_on_commit=False) as session, session.begin():
                return work(session)

        if self._waiting >= self._MAX_WAITING:
            raise _unavailable("is too busy")
        loop = asyncio.get_running_loop()
        self._waiting += 1
        running = loop.run_in_executor(self._executor, transaction)
        running.add_done_callback(self._done)
        try:
            # Shielded: a record is written whole even if its client has left.
            async with asyncio.timeout(self._TIMEOUT_S):
                return await asyncio.shield(running)
        except TimeoutError as error:
            raise _unavailable("does not answer") from error
        except OperationalError as error:
            if "full" in str(error.orig):
                raise E3RGError(
                    "disk_full", "the server's disk is full; free space and try again", status=507
                ) from error
            raise _unavailable("does not answer") from error
        except SQLAlchemyError as error:
            log.error("the database refused", exc_info=error)
            raise _unavailable("refused the record") from error

    def _done(self, running: asyncio.Future[T]) -> None:
        self._waiting -= 1
        if not running.cancelled():
            running.exception()  # seen, also when nobody waits any more


def _unavailable(what: str) -> E3RGError:
    return E3RGError(
        "records_unavailable",
        f"the server's database {what}; try again shortly",
        status=503,
        retry_after=5,
    )


def _connect(url: str) -> Engine:
    engine = create_engine(url, pool_pre_ping=True)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def configure(connection: Any, _: Any) -> None:
            # Readers in other processes do not wait for the writer, and writers wait their turn.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA busy_timeout=5000")

    return engine
