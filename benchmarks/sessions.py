"""Realtime sessions one after another and side by side: no crossing of streams, memory level.

Each session asks something, takes the spoken reply, and hangs up; Whisper hears each reply, and
what it hears must be nearest to the session's own transcript. Starts `e3rg up` (or takes a running
system on this machine). Run::

    python benchmarks/sessions.py [--sequential 100] [--together 8] [--rounds 3] [--address URL]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import difflib
import re
import sys
from contextlib import ExitStack
from typing import Any

from _system import Replicas, system
from interrupt import Idle, say
from openai import AsyncOpenAI
from rich.console import Console

from e3rg.media.encode import encode_audio
from e3rg.media.types import Pcm

SAID = (
    "I lost my dog yesterday.",
    "I got the job that I wanted!",
    "My neighbour brought me soup.",
    "Somebody broke into our flat.",
    "I am afraid of my exam tomorrow.",
    "My best friend forgot my birthday.",
    "We are going to have a baby!",
    "I feel so alone in this city.",
)


async def one(client: AsyncOpenAI, text: str) -> tuple[str, bytes]:
    """A session: what its reply says, and how that sounds."""
    spoken, told = bytearray(), ""
    async with client.realtime.connect(model="e3rg") as connection:
        session: Any = {"type": "realtime", "max_output_tokens": 30}
        await connection.session.update(session=session)
        await say(connection, text)
        await connection.response.create()
        async for event in connection:
            if event.type == "response.output_audio.delta":
                spoken += base64.b64decode(event.delta)
            elif event.type == "response.output_audio_transcript.done":
                told = event.transcript
            elif event.type == "response.done":
                if event.response.status not in ("completed", "incomplete"):
                    raise SystemExit(f"a response failed: {event.response.status_details}")
                return told, bytes(spoken)
    raise SystemExit("a session ended early")


async def heard(client: AsyncOpenAI, spoken: bytes) -> str:
    """What Whisper hears in it."""
    file = ("reply.wav", encode_audio(Pcm(spoken, 24_000), "wav"))
    return (await client.audio.transcriptions.create(model="whisper-1", file=file)).text


def alike(one: str, two: str) -> float:
    """0 to 1, by the words in their order."""
    pair = [re.findall(r"[a-z']+", text.lower()) for text in (one, two)]
    return difflib.SequenceMatcher(None, *pair).ratio()


async def measure(
    address: str, replicas: Replicas, sequential: int, together: int, rounds: int
) -> None:
    """Hold the sessions, and print what was found."""
    console = Console()
    replies: list[tuple[str, bytes]] = []
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="none") as client:
        for number in range(5):
            await one(client, SAID[number])
        await asyncio.to_thread(Idle(replicas).run)
        console.print("before:", await asyncio.to_thread(replicas.level))
        for number in range(sequential):
            replies.append(await one(client, SAID[number % len(SAID)]))
            print(f"\r{number + 1} of {sequential} sessions", end="", file=sys.stderr, flush=True)
        await asyncio.to_thread(Idle(replicas).run)
        console.print(f"after {sequential} sessions:", await asyncio.to_thread(replicas.level))
        for _ in range(rounds):
            texts = (SAID * (1 + together // len(SAID)))[:together]
            replies += await asyncio.gather(*(one(client, text) for text in texts))
        await asyncio.to_thread(Idle(replicas).run)
        console.print(
            f"after {rounds} rounds of {together} at once:", await asyncio.to_thread(replicas.level)
        )
        own, crossed = [], []
        for told, spoken in replies:
            back = await heard(client, spoken)
            own.append(alike(back, told))
            if any(alike(back, other) > own[-1] for other, _ in replies):
                crossed.append((told, back))
    console.print(f"{len(replies)} sessions; likeness to the own words: least {min(own):.2f}, ")
    console.print(f"mean {sum(own) / len(own):.2f}; nearer to another's words: {len(crossed)}")
    for told, back in crossed:
        console.print(f"  said {told!r}, heard {back!r}")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequential", type=int, default=100)
    parser.add_argument("--together", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--address", help="a system that runs on this machine")
    parser.add_argument("--profile", default="local")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        address = arguments.address or stack.enter_context(system(arguments.profile))
        replicas = Replicas()
        stack.callback(replicas.close)
        asyncio.run(
            measure(address, replicas, arguments.sequential, arguments.together, arguments.rounds)
        )


if __name__ == "__main__":
    main()
