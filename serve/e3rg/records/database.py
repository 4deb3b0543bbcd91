"""The records' database: any that SQLAlchemy knows, asked from asyncio with a bounded queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from sqlalchemy import CursorResult, create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Session

from e3rg.errors import E3RGError

T = TypeVar("T")

log = logging.getLogger(__name__)


class Base(DeclarativeBase):
    """Tables of the records."""


class Database:
    """Runs transactions, one at a time and in order.

    One writer is what SQLite allows; it also bounds the connections.

    Args:
        url: e.g. ``sqlite:////path/e3rg.db``.
    """

    _MAX_WAITING = 64
    _TIMEOUT_S = 15.0

    def __init__(self, url: str) -> None:
        self._engine = _connect(url)
        self._waiting = 0
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="records")

    def create(self, table: type[Base]) -> None:
        """Make a table unless it exists."""
        tables = [Base.metadata.tables[table.__tablename__]]
        try:
            Base.metadata.create_all(self._engine, tables)
        except SQLAlchemyError:
            # Another replica may have made it between the look and the making.
            Base.metadata.create_all(self._engine, tables)

    def close(self) -> None:
        """Finish what was begun and close the database."""
        self._executor.shutdown(wait=True)
        self._engine.dispose()

    async def run(self, work: Callable[[Session], T]) -> T:
        """Run a transaction; it is finished even if the caller is cancelled meanwhile.

        Raises:
            E3RGError: ``disk_full`` (507) or ``records_unavailable`` (503), and what ``work``
                raises, which rolls back.
        """

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


def changed(result: Any) -> bool:
    """Whether a statement changed any row."""
    return cast("CursorResult[Any]", result).rowcount > 0
