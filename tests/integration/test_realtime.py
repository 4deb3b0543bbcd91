"""Realtime sessions on the real system: spoken turns, interruptions, sessions side by side."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import av
import pytest
from conftest import Replicas, Server
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from sessions import SAID, alike, heard

RATE = 24_000


@asynccontextmanager
async def session(server: Server, **settings: Any) -> AsyncIterator[AsyncRealtimeConnection]:
    client = AsyncOpenAI(base_url=f"{server.address}/v1", api_key="none")
    async with client, client.realtime.connect(model="e3rg") as connection:
        if settings:
            await connection.session.update(session={"type": "realtime", **settings})  # type: ignore[arg-type]
        yield connection


async def until(connection: AsyncRealtimeConnection, *names: str) -> list[Any]:
    """The events up to one of these."""
    seen: list[Any] = []
    async with asyncio.timeout(120):
        async for event in connection:
            assert event.type != "error", event
            seen.append(event)
            if event.type in names:
                break
    return seen


async def say(connection: AsyncRealtimeConnection, text: str) -> None:
    content = [{"type": "input_text", "text": text}]
    item: Any = {"type": "message", "role": "user", "content": content}
    await connection.conversation.item.create(item=item)
    await connection.response.create()


async def append(connection: AsyncRealtimeConnection, data: bytes) -> None:
    for at in range(0, len(data), 9_600):
        audio = base64.b64encode(data[at : at + 9_600]).decode()
        await connection.input_audio_buffer.append(audio=audio)


def sound(events: list[Any]) -> bytes:
    deltas = [each.delta for each in events if each.type == "response.output_audio.delta"]
    return b"".join(map(base64.b64decode, deltas))


def transcript(events: list[Any]) -> str:
    return next(
        str(each.transcript)
        for each in events
        if each.type == "response.output_audio_transcript.done"
    )


async def heard_from(server: Server, data: bytes) -> str:
    """What Whisper hears in a reply."""
    async with AsyncOpenAI(base_url=f"{server.address}/v1", api_key="none") as client:
        return await heard(client, data)


@pytest.fixture(scope="module")
def speech(shared: Path) -> bytes:
    """A voice at 24 kHz."""
    resampler = av.AudioResampler("s16", "mono", RATE)
    with av.open(str(shared / "speech_jfk.flac")) as file:
        frames = [out for frame in file.decode(audio=0) for out in resampler.resample(frame)]
    return b"".join(frame.to_ndarray().tobytes() for frame in frames)


async def test_a_voice_is_heard_and_answered_by_voice(server: Server, speech: bytes) -> None:
    vad = {"type": "server_vad", "silence_duration_ms": 2_000}
    async with session(server, audio={"input": {"turn_detection": vad}}) as connection:
        await append(connection, speech + bytes(2 * RATE * 3))
        seen = await until(connection, "response.done")
    names = [each.type for each in seen]
    assert names.index("input_audio_buffer.speech_started") < names.index("response.created")
    said = next(e for e in seen if e.type.endswith("input_audio_transcription.completed"))
    assert "what your country can do for you" in said.transcript
    assert seen[-1].response.status == "completed"
    reply = transcript(seen)
    assert alike(await heard_from(server, sound(seen)), reply) > 0.7, reply


async def test_an_interruption_stops_every_stage(
    server: Server, replicas: Replicas, speech: bytes
) -> None:
    async with session(server) as connection:
        await say(connection, SAID[0])
        await until(connection, "response.output_audio.delta")
        # Up to the first pause: the end of speech would begin another reply.
        await append(connection, speech[: 2 * RATE * 2])
        seen = await until(connection, "conversation.item.truncated")
        done = next(each for each in seen if each.type == "response.done")
        assert done.response.status_details.reason == "turn_detected"
        started = [each.type for each in seen].index("input_audio_buffer.speech_started")
        assert not sound(seen[started:])
        await asyncio.to_thread(replicas.wait_idle)
        # The person says the rest, and is answered.
        await append(connection, speech[2 * RATE * 2 :] + bytes(2 * RATE))
        seen = await until(connection, "response.done")
        while seen[-1].response.status != "completed":  # a pause in the speech looked like its end
            seen = await until(connection, "response.done")
        assert len(sound(seen)) > RATE


async def test_sessions_do_not_cross(server: Server, replicas: Replicas) -> None:
    before = (await asyncio.to_thread(replicas.level)).tasks

    async def one(text: str) -> tuple[str, bytes]:
        async with session(server, max_output_tokens=30) as connection:
            await say(connection, text)
            seen = await until(connection, "response.done")
            assert seen[-1].response.status in ("completed", "incomplete")
            return transcript(seen), sound(seen)

    replies = [await one(text) for text in SAID[:3]]
    replies += await asyncio.gather(*map(one, SAID))
    told = [reply for reply, _ in replies]
    for index, (reply, data) in enumerate(replies):
        back = await heard_from(server, data)
        mine = alike(back, reply)
        assert mine > 0.6, f"{reply!r} was spoken as {back!r}"
        others = [alike(back, other) for other in told if other != reply]
        assert mine >= max(others, default=0.0), f"reply {index} sounds like another's"
    await asyncio.to_thread(replicas.wait_idle)
    after = (await asyncio.to_thread(replicas.level)).tasks
    assert all(after[stage] <= before[stage] + 2 for stage in before), (before, after)


def test_the_measure_knows_other_words() -> None:
    assert alike("I am sorry about your dog.", "Sorry about your dog!") > 0.7
    assert alike("I am sorry about your dog.", "What a wonderful new job that is.") < 0.3
