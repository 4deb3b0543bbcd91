"""Calls to stages as the conductor makes them: bounded in time, failing in one way.

Over Ray a client has translated every failure already; an engine in process has not. Behind these
two functions both are alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import TypeVar

from e3rg.errors import E3RGError

log = logging.getLogger(__name__)

T = TypeVar("T")

MEMORY_S = 10.0
"""Longest wait for memory."""


async def call(stage: str, work: Awaitable[T], limit_s: float) -> T:
    """Await a stage's answer.

    Raises:
        E3RGError: the stage's own, ``<stage>_timeout`` (504), or ``<stage>_failed`` (500) in place
            of any other exception, which is logged.
    """
    scope = asyncio.timeout(limit_s)
    try:
        async with scope:
            return await work
    except E3RGError:
        raise
    except Exception as error:
        if isinstance(error, TimeoutError) and scope.expired():
            raise E3RGError(
                f"{stage}_timeout",
                f"the {stage} stage did not answer within {limit_s:.0f} s",
                status=504,
            ) from error
        log.error("the %s stage failed", stage, exc_info=error)
        raise E3RGError(
            f"{stage}_failed", f"the {stage} stage failed on this request", status=500
        ) from error


async def iterate(
    stage: str, source: AsyncGenerator[T, None], first_s: float, limit_s: float
) -> AsyncGenerator[T, None]:
    """Pass on a stage's stream.

    Args:
        stage: its name.
        source: what it gives.
        first_s: the longest wait for the first item, which may have to queue for the stage.
        limit_s: the longest wait for each later one.
    """
    async with aclosing(source):
        wait = first_s
        while (item := await call(stage, anext(source, None), wait)) is not None:
            yield item
            wait = limit_s
