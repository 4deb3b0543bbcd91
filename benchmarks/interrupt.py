"""Interrupt to silence, and interrupt to idle, at random moments of real spoken replies.

Starts `e3rg up` (or takes a running system on this machine) and talks to it through the official
client's realtime API. Run::

    python benchmarks/interrupt.py [--count 200] [--video] [--address URL] [--json OUT]

``silence`` is the time from the sending of the interruption until the last byte of sound was
received; 0 where none came any more. ``idle`` is the time from the same moment until every stage's
replica says that it works on nothing, asked past the gateway every 10 ms; nothing is subtracted for
the asking.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _system import Replicas, system
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from rich.console import Console
from rich.table import Table

SAID = (
    "I lost my dog yesterday. He was with me for fourteen years.",
    "I got the job I had been dreaming of since school!",
    "My best friend forgot my birthday and I feel left out.",
    "I have to speak in front of two hundred people tomorrow.",
    "Somebody broke into our flat while we slept.",
)
TARGETS = {"silence": 0.25, "idle": 0.5}
_PER_SESSION = 20
_LATEST_S = 8.0
"""An interruption comes at most so long after the reply was asked for."""
_SURE_S = 0.25
"""Idle counts when no stage works again within this time: between two sentences one may rest."""


class Idle(threading.Thread):
    """Finds the moment from which on no stage works."""

    def __init__(self, replicas: Replicas) -> None:
        super().__init__(daemon=True)
        self._replicas = replicas
        self.at = 0.0
        self.last_busy: dict[str, int] = {}

    def run(self) -> None:
        since: float | None = None
        due = time.monotonic() + 30
        while time.monotonic() < due:
            busy = self._replicas.busy()
            now = time.monotonic()
            if busy:
                since, self.last_busy = None, busy
            elif since is None:
                since = now
            elif now - since > _SURE_S:
                self.at = since
                return
            # Asking without a pause takes the cores from what is being stopped.
            time.sleep(0.01)


async def interrupt(
    connection: AsyncRealtimeConnection, replicas: Replicas, chance: random.Random
) -> dict[str, Any]:
    """One reply, interrupted: seconds until silence and until idle, and where it was."""
    await say(connection, chance.choice(SAID))
    await connection.response.create()
    heard, last, done, sent = 0, 0.0, None, None
    begun = time.monotonic()
    moment = begun + chance.uniform(0.0, _LATEST_S)
    watch = Idle(replicas)
    while done is None:
        wait = None if sent else max(moment - time.monotonic(), 0.0)
        try:
            async with asyncio.timeout(wait):
                event = await connection.recv()
        except TimeoutError:
            sent = time.monotonic()
            await connection.response.cancel()
            watch.start()
            continue
        if event.type == "response.output_audio.delta":
            heard, last = heard + 1, time.monotonic()
        if event.type == "response.done":
            done = event.response.status
        if event.type == "error":
            raise SystemExit(f"the server said: {event.error.message}")
    if sent is None:
        return {"status": done}
    await asyncio.to_thread(watch.join)
    return {
        "status": done,
        "moment": round(sent - begun, 3),
        "deltas": heard,
        "silence": round(max(last - sent, 0.0), 4),
        "idle": round(watch.at - sent, 4),
        "last_busy": watch.last_busy,
    }


async def say(connection: AsyncRealtimeConnection, text: str) -> None:
    """Put a user's message into the conversation."""
    await connection.conversation.item.create(
        item={
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }
    )


async def whole(connection: AsyncRealtimeConnection) -> str:
    """A reply that nobody interrupts; its status."""
    await say(connection, SAID[0])
    await connection.response.create()
    async for event in connection:
        if event.type == "response.done":
            return str(event.response.status)
    raise SystemExit("the session ended")


async def measure(address: str, replicas: Replicas, count: int, video: bool) -> dict[str, Any]:
    """Interrupt so many replies, and see what is left of them."""
    chance = random.Random(1)
    results: list[dict[str, Any]] = []
    before = None
    client = AsyncOpenAI(base_url=f"{address}/v1", api_key="none")
    while sum("silence" in each for each in results) < count:
        async with client.realtime.connect(model="e3rg") as connection:
            session: Any = {"type": "realtime", "e3rg": {"video": video}}
            await connection.session.update(session=session)
            if before is None:
                await whole(connection)
                await asyncio.to_thread(Idle(replicas).run)
                before = await asyncio.to_thread(replicas.level)
            for _ in range(_PER_SESSION):
                results.append(await interrupt(connection, replicas, chance))
                done = sum("silence" in each for each in results)
                print(f"\r{done} of {count} interrupted", end="", file=sys.stderr, flush=True)
            if await whole(connection) != "completed":
                raise SystemExit("a turn after the interruptions did not complete")
    await asyncio.to_thread(Idle(replicas).run)
    assert before is not None
    return {
        "interrupted": [each for each in results if "silence" in each][:count],
        "before": asdict(before),
        "after": asdict(await asyncio.to_thread(replicas.level)),
    }


def report(measured: dict[str, Any]) -> None:
    """Print a table."""
    rows = measured["interrupted"]
    table = Table(title=f"{len(rows)} interruptions, seconds")
    for column in ("", "p50", "p95", "max", "target p95"):
        table.add_column(column)
    for name, target in TARGETS.items():
        values = sorted(each[name] for each in rows)
        high = statistics.quantiles(values, n=100)[94]
        measured[name] = {"p50": statistics.median(values), "p95": high, "max": values[-1]}
        table.add_row(
            name, f"{measured[name]['p50']:.3f}", f"{high:.3f}", f"{values[-1]:.3f}", f"{target}"
        )
    console = Console()
    console.print(table)
    slow = sorted(rows, key=lambda each: -float(each["idle"]))[: max(len(rows) // 20, 3)]
    console.print("slowest:", [(each["idle"], each["moment"], each["last_busy"]) for each in slow])
    console.print("before:", measured["before"])
    console.print("after:", measured["after"])


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--video", action="store_true", help="interrupt talking heads")
    parser.add_argument("--address", help="a system that runs on this machine")
    parser.add_argument("--profile", default="local")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        address = arguments.address or stack.enter_context(system(arguments.profile))
        replicas = Replicas()
        stack.callback(replicas.close)
        measured = asyncio.run(measure(address, replicas, arguments.count, arguments.video))
    report(measured)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
