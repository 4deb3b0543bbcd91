"""One deadline for a whole turn: set once at the gateway, it travels with every hop.

A deadline is an absolute Unix time, since hops may run on different machines (whose clocks are
assumed to agree within a second); it is kept in a context variable so that no stage has to pass it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from e3rg.errors import E3RGError

_deadline: ContextVar[float | None] = ContextVar("e3rg_deadline", default=None)


def current() -> float | None:
    """The deadline of the running turn (Unix time), or None outside of one."""
    return _deadline.get()


def remaining() -> float | None:
    """Seconds left of the running turn, at least 0, or None outside of one."""
    deadline = _deadline.get()
    return None if deadline is None else max(deadline - time.time(), 0.0)


@asynccontextmanager
async def bounded(deadline: float | None) -> AsyncIterator[None]:
    """Run a block that must end by a deadline; None means no limit.

    Raises:
        E3RGError: ``deadline_exceeded`` (504) when the time is over.
    """
    if deadline is None:
        yield
        return
    token = _deadline.set(deadline)
    scope = asyncio.timeout(max(deadline - time.time(), 0))
    try:
        async with scope:
            yield
    except TimeoutError as error:
        if not scope.expired():  # somebody else's time-out, with its own meaning
            raise
        raise E3RGError(
            "deadline_exceeded",
            "the turn did not end within its time limit; ask for less, or try again later",
            status=504,
        ) from error
    finally:
        _deadline.reset(token)
