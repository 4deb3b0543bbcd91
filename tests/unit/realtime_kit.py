"""Realtime sessions for tests: a gateway, the official client, and a strict eye on every event."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from e3rg.media.types import Pcm

_EVENTS: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
OWN = "response.e3rg."


def check(event: dict[str, Any]) -> None:
    """The event is what the official client's types say, field by field."""
    assert event["event_id"].startswith("event_")
    if event["type"].startswith(OWN):
        assert event["response_id"].startswith("resp_")
        return
    parsed = _EVENTS.validate_python(event, strict=True)
    assert parsed.type == event["type"]


class Talk:
    """A connection whose every event is checked."""

    def __init__(self, connection: AsyncRealtimeConnection) -> None:
        self.connection = connection
        self.seen: list[dict[str, Any]] = []

    async def next(self, wait_s: float = 30) -> dict[str, Any]:
        async with asyncio.timeout(wait_s):
            event: dict[str, Any] = (await self.connection.recv()).to_dict()
        check(event)
        self.seen.append(event)
        return event

    async def until(self, *names: str, wait_s: float = 30) -> dict[str, Any]:
        async with asyncio.timeout(wait_s):
            while (event := await self.next(wait_s))["type"] not in names:
                pass
        return event

    async def send(self, name: str, **fields: Any) -> None:
        await self.connection.send({"type": name, **fields})  # type: ignore[arg-type]

    async def configure(self, **session: Any) -> dict[str, Any]:
        await self.send("session.update", session={"type": "realtime", **session})
        return await self.until("session.updated", "error")

    async def say(self, text: str = "I lost my dog.") -> str:
        """Put a user's message into the conversation; its id."""
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)
        added = await self.until("conversation.item.done", "error")
        assert added["type"] != "error", added
        return str(added["item"]["id"])

    async def reply(self, **response: Any) -> dict[str, Any]:
        """Ask for a response, and wait for its end."""
        await self.send("response.create", response=response)
        return dict((await self.until("response.done"))["response"])

    async def append(self, audio: Pcm, chunk_s: float = 0.1, pause_s: float = 0.0) -> None:
        """Send sound as a microphone does."""
        step = 2 * int(audio.sample_rate * chunk_s)
        for at in range(0, len(audio.data), step):
            data = base64.b64encode(audio.data[at : at + step]).decode()
            await self.send("input_audio_buffer.append", audio=data)
            await asyncio.sleep(pause_s)

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.seen if event["type"] == name]

    @property
    def names(self) -> list[str]:
        return [event["type"] for event in self.seen]

    @property
    def sound(self) -> bytes:
        deltas = [event["delta"] for event in self.of("response.output_audio.delta")]
        return b"".join(map(base64.b64decode, deltas))


@asynccontextmanager
async def talk(address: str, model: str = "e3rg") -> AsyncIterator[Talk]:
    """A session through the official client."""
    client = AsyncOpenAI(base_url=f"{address}/v1", api_key="x")
    async with client, client.realtime.connect(model=model) as connection:
        talking = Talk(connection)
        assert (await talking.next())["type"] == "session.created"
        yield talking


def silence(seconds: float, rate: int = 24_000) -> Pcm:
    return Pcm(bytes(2 * int(seconds * rate)), rate)


def at_rate(audio: Pcm, rate: int = 24_000) -> Pcm:
    """Another rate by linear interpolation: good enough to be understood."""
    samples = np.frombuffer(audio.data, np.int16)
    count = int(samples.size * rate / audio.sample_rate)
    times = np.arange(count) * audio.sample_rate / rate
    moved = np.interp(times, np.arange(samples.size), samples)
    return Pcm(moved.astype(np.int16).tobytes(), rate)
