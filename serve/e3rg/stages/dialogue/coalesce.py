"""Groups text deltas before they cross a process border.

A handle crossing costs more than a small token, so later deltas wait for each other; the first one
never waits, since somebody is waiting for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from e3rg.stages.dialogue.engine import TextDelta


async def coalesce(
    deltas: AsyncGenerator[TextDelta, None], window: float = 0.02
) -> AsyncGenerator[TextDelta, None]:
    """Join the deltas that come within ``window`` seconds of each other's first.

    Closing this iterator closes ``deltas``.
    """
    async with aclosing(deltas) as source:
        pending: asyncio.Task[TextDelta] | None = None
        group: TextDelta | None = None
        closes = 0.0
        first = True
        loop = asyncio.get_running_loop()
        try:
            while True:
                if pending is None:
                    pending = asyncio.ensure_future(anext(source))
                wait = None if group is None else max(closes - loop.time(), 0)
                done, _ = await asyncio.wait({pending}, timeout=wait)
                if not done:
                    assert group is not None
                    yield group
                    group = None
                    continue
                task, pending = pending, None
                try:
                    delta = task.result()
                except StopAsyncIteration:
                    break
                if first:
                    first = False
                    yield delta
                elif group is None:
                    group, closes = delta, loop.time() + window
                else:
                    group = replace(delta, text=group.text + delta.text)
            if group is not None:
                yield group
        finally:
            if pending is not None:
                await _end(pending)


async def _end(task: asyncio.Task[TextDelta]) -> None:
    """Cancel a task and wait for its end, even when cancelled again meanwhile.

    A source that still runs cannot be closed.
    """
    task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if not task.cancelled():
        task.exception()  # nobody listens any more
    if cancelled is not None:
        raise cancelled
