"""Calls through the gateway over scripted stages: signalling, life and death of sessions."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import threading
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import openai
import pytest
import soxr
from aiortc import MediaStreamTrack
from openai import AsyncOpenAI
from scripted import REPLY, Script
from shared_data import shared
from sounds import RATE, pcm, read
from test_whisper import word_errors
from webrtc_client import Client, closing

from e3rg.config import GatewayConfig, IceServer, Profile, load_profile
from e3rg.gateway.webrtc import call as call_module
from e3rg.inprocess import served
from e3rg.local_context import engine_context
from e3rg.stages.speech.kokoro import KokoroSpeech
from e3rg.stages.understanding.whisper import Whisper

SDP = {"content-type": "application/sdp"}


@pytest.fixture
def script() -> Script:
    return Script()


def profile(**gateway: Any) -> Profile:
    return load_profile("local").model_copy(update={"gateway": GatewayConfig(**gateway)})


@pytest.fixture
async def http(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    async with (
        served(profile(max_sessions=2), script.stages()) as address,
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        yield client


async def call(http: httpx.AsyncClient, client: Client, query: str = "") -> str:
    """Call, and return the call's path."""
    response = await http.post(
        f"/v1/realtime/calls{query}", content=await client.offer(), headers=SDP
    )
    assert response.status_code == 201, response.text
    assert response.headers["content-type"] == "application/sdp"
    await client.accept(response.text)
    await client.event("session.created")
    return str(response.headers["location"])


def say(client: Client, text: str = "I lost my dog.") -> None:
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    client.send("conversation.item.create", item=item)
    client.send("response.create")


def held() -> tuple[int, int, int]:
    """Sockets, tasks and threads of this process."""
    gc.collect()
    fds = Path("/proc/self/fd")
    links = [str(fd.readlink()) for fd in fds.iterdir() if fd.is_symlink()]
    sockets = sum(link.startswith("socket:") for link in links)
    return sockets, len(asyncio.all_tasks()), threading.active_count()


async def test_a_call_with_the_official_client(http: httpx.AsyncClient) -> None:
    client = Client()
    async with (
        AsyncOpenAI(base_url=f"{http.base_url}/v1", api_key="x") as api,
        closing(client),
    ):
        answer = await api.realtime.calls.create(
            sdp=await client.offer(),
            session={"type": "realtime", "model": "gpt-realtime", "instructions": "Be brief."},
        )
        assert answer.response.status_code == 201
        await client.accept(answer.text)
        session = (await client.event("session.created"))["session"]
        assert session["instructions"] == "Be brief."
        assert session["e3rg"]["video"] is True
        say(client)
        done = await client.event("response.done")
        assert done["response"]["output"][0]["content"][0]["transcript"] == REPLY
        await client.event("output_audio_buffer.stopped")
        kinds = client.kinds()
        assert "response.output_audio.delta" not in kinds
        assert kinds.index("response.content_part.added") < kinds.index(
            "output_audio_buffer.started"
        )
        assert client.pictures and client.sound
        call_id = answer.response.headers["location"].rsplit("/", 1)[1]
        await api.realtime.calls.hangup(call_id)
        await client.until(lambda: client.channel.readyState == "closed", 5)
        with pytest.raises(openai.NotFoundError):
            await api.realtime.calls.hangup(call_id)


async def test_ice_servers_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    turn = IceServer(urls=("turn:turn.example:3478",), username="a", credential="b")
    stun = IceServer(urls=("stun:stun.example:3478",))
    async with (
        served(profile(ice_servers=(turn, stun)), Script().stages()) as address,
        httpx.AsyncClient(base_url=address) as client,
    ):
        assert (await client.get("/v1/realtime/ice")).json() == {
            "ice_servers": [
                {"urls": ["turn:turn.example:3478"], "username": "a", "credential": "b"},
                {"urls": ["stun:stun.example:3478"]},
            ]
        }


async def test_bad_calls_are_refused_and_leave_nothing(http: httpx.AsyncClient) -> None:
    client = Client()
    async with closing(client):
        good = await client.offer()
        form = {"session": '{"type": "realtime"}'}
        cases: list[tuple[dict[str, Any], int, str]] = [
            ({"content": b"", "headers": SDP}, 400, "invalid_sdp"),
            ({"content": b"\xff\xfe", "headers": SDP}, 400, "invalid_type"),
            ({"content": b"v=0\r\n" + bytes(70_000), "headers": SDP}, 413, "sdp_too_large"),
            ({"content": good.encode()}, 415, "unsupported_media_type"),
            ({"json": {"sdp": good}}, 415, "unsupported_media_type"),
            ({"files": {"session": (None, "{}")}}, 400, "invalid_type"),
            ({"files": {"sdp": (None, good), "x": (None, "1")}}, 400, "unknown_field"),
            ({"files": {"sdp": (None, good), "session": (None, "[")}}, 400, "invalid_json"),
            (
                {"files": {"sdp": (None, good), "session": (None, '{"\\ud800": 1}')}},
                400,
                "invalid_json",
            ),
            ({"files": {"sdp": (None, good), "session": (None, "[]")}}, 400, "invalid_type"),
            (
                {
                    "files": {"sdp": (None, good)},
                    "data": {"session": '{"type": "realtime", "a": 1}'},
                },
                400,
                "unknown_field",
            ),
            ({"content": good, "headers": SDP, "params": {"model": "x"}}, 404, "model_not_found"),
            (
                {"content": good, "headers": SDP, "params": {"model": "tts-1"}},
                400,
                "model_not_supported",
            ),
            (
                {"content": good.replace("opus", "vorbis"), "headers": SDP},
                400,
                "unsupported_codec",
            ),
            (
                {
                    "content": good.replace("VP8", "AV1").replace("H264", "H265"),
                    "headers": SDP,
                },
                400,
                "unsupported_codec",
            ),
            ({"content": good.replace("a=rtcp-mux", "a=x"), "headers": SDP}, 400, "invalid_sdp"),
            ({"content": good.replace(":sha-", ":md"), "headers": SDP}, 400, "invalid_sdp"),
            ({"files": {"sdp": (None, "v=0")}, "data": form}, 400, "invalid_sdp"),
        ]
        before = held()
        for again in range(4):
            for request, status, code in cases:
                response = await http.post("/v1/realtime/calls", **request)
                assert (response.status_code, response.json()["error"]["code"]) == (status, code), (
                    request
                )
            if not again:  # the first that asks admission starts what tends the leases
                before = held()
        await asyncio.sleep(0.1)
        after = held()
        assert after[0] <= before[0] + 1 and after[1] <= before[1] + 1, (before, after)
        # No place was lost either.
        await call(http, client)


async def test_sessions_are_bounded_and_end_with_their_peers(http: httpx.AsyncClient) -> None:
    clients = [Client(video=False) for _ in range(2)]
    for client in clients:
        await call(http, client)
    third = Client(video=False)
    async with closing(third):
        refused = await http.post("/v1/realtime/calls", content=await third.offer(), headers=SDP)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
        assert "retry-after" in refused.headers
        await clients[0].close()
        async with asyncio.timeout(20):
            while True:
                response = await http.post(
                    "/v1/realtime/calls", content=third.pc.localDescription.sdp, headers=SDP
                )
                if response.status_code == 201:
                    break
                await asyncio.sleep(0.1)
        await third.accept(response.text)
        await third.event("session.created")
    await clients[1].close()


async def test_a_peer_that_never_connects_is_dropped(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_module, "CONNECT_S", 0.5)
    client = Client()
    async with closing(client):
        offer = await client.offer()
        await http.post("/v1/realtime/calls", content=offer, headers=SDP)
        await asyncio.sleep(1.5)
        before = held()
        for _ in range(4):  # more than there are places
            response = await http.post("/v1/realtime/calls", content=offer, headers=SDP)
            assert response.status_code == 201
            hangup = f"{response.headers['location']}/hangup"
            async with asyncio.timeout(10):
                while (await http.post(hangup)).status_code != 404:
                    await asyncio.sleep(0.1)
        await asyncio.sleep(0.2)
        after = held()
        assert after[0] <= before[0] + 1 and after[1] <= before[1] + 1, (before, after)


async def test_ten_sessions_leave_nothing(http: httpx.AsyncClient, script: Script) -> None:
    script.reply = "I am so sorry."
    counts = []
    for number in range(10):
        client = Client(codec="VP8" if number % 3 == 2 else "")
        async with closing(client):
            path = await call(http, client)
            say(client)
            await client.event("output_audio_buffer.started")
            if number % 2:
                await http.post(f"{path}/hangup")
        async with asyncio.timeout(20):
            while (await http.post(f"{path}/hangup")).status_code != 404:
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)
        assert script.idle
        counts.append(held())
    # The first sessions fill thread pools and connection pools.
    assert counts[-1][0] <= counts[2][0], counts
    assert counts[-1][1] <= counts[2][1], counts
    assert counts[-1][2] <= counts[2][2] + 4, counts


async def test_the_server_ends_its_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    client = Client()
    async with closing(client):
        async with (
            served(profile(), Script().stages()) as address,
            httpx.AsyncClient(base_url=address) as http,
        ):
            await call(http, client)
        await client.until(lambda: client.channel.readyState == "closed", 10)


async def test_interrupted_at_once_and_the_next_reply_is_heard(
    http: httpx.AsyncClient, script: Script
) -> None:
    script.reply = REPLY * 3
    client = Client()
    async with closing(client):
        await call(http, client)
        say(client)
        await client.event("output_audio_buffer.started")
        await asyncio.sleep(0.6)
        client.send("output_audio_buffer.clear")
        await client.event("output_audio_buffer.cleared")
        frames = len(client.sound)
        cut = await client.event("conversation.item.truncated")
        assert 300 <= cut["audio_end_ms"] <= 2_500
        await client.until(lambda: len(client.sound) > frames + 40)
        quiet = client.sound[frames + 10 :]
        assert max(np.abs(frame.to_ndarray()).max() for frame in quiet) < 20
        client.events.clear()
        script.reply = "I see."
        say(client, "Go on.")
        done = await client.event("response.done")
        assert done["response"]["status"] == "completed"
        await client.event("output_audio_buffer.stopped")
        assert "error" not in client.kinds()


async def test_messages_that_are_no_events_are_told(http: httpx.AsyncClient) -> None:
    client = Client(video=False)
    async with closing(client):
        await call(http, client)
        for message in ("{", "[" * 5_000, "7", b"\xff", '{"type": 5}', '{"type": "none"}'):
            client.channel.send(message)
        await client.until(lambda: client.kinds().count("error") == 6)
        codes = [e["error"]["code"] for e in client.events if e["type"] == "error"]
        assert codes[:4] == ["invalid_json", "invalid_json", "invalid_event", "invalid_json"]


class Voice(MediaStreamTrack):
    """Says something once it is told to; silent before and after."""

    kind = "audio"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._sound = np.frombuffer(read(path).data, "<i2")[: 4 * RATE]
        self._step = RATE // 50
        self._at: int | None = None
        self._sent = 0

    def speak(self) -> None:
        self._at = 0

    async def recv(self) -> av.AudioFrame:
        await asyncio.sleep(0.02)
        part = np.zeros(self._step, np.int16)
        if self._at is not None:
            piece = self._sound[self._at : self._at + self._step]
            part[: len(piece)] = piece
            self._at += self._step
        frame = av.AudioFrame.from_ndarray(part.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.pts = RATE, self._sent
        frame.time_base = Fraction(1, RATE)
        self._sent += self._step
        return frame


async def test_speaking_into_the_reply_stops_it(http: httpx.AsyncClient, script: Script) -> None:
    script.reply = REPLY * 3
    voice = Voice(shared("speech_jfk.flac"))
    client = Client(voice)
    async with closing(client):
        await call(http, client)
        say(client)
        await client.event("output_audio_buffer.started")
        voice.speak()
        await client.event("input_audio_buffer.speech_started")
        await client.event("output_audio_buffer.cleared", 2)
        await client.event("conversation.item.truncated", 5)
        # What was said is answered as a turn of its own.
        await client.event("input_audio_buffer.committed")
        await client.until(lambda: client.kinds().count("response.done") == 2)
        heard = await client.event("conversation.item.input_audio_transcription.completed")
        assert heard["transcript"] == script.transcript


async def test_what_arrives_is_what_was_said(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    context = engine_context()
    speech = await asyncio.to_thread(KokoroSpeech.load, context)
    client = Client()
    try:
        stages = dataclasses.replace(script.stages(), speech=speech)
        async with (
            served(profile(), stages) as address,
            httpx.AsyncClient(base_url=address, timeout=30) as http,
            closing(client),
        ):
            await call(http, client)
            say(client)
            await client.event("output_audio_buffer.stopped", 60)
            await asyncio.sleep(0.5)
            sound = client.heard()
    finally:
        speech.close()
    heard = pcm(soxr.resample(sound / 32768, 48_000, RATE))
    text = Whisper.load(context.models).transcribe(heard).text
    assert word_errors(REPLY, text) <= 0.1, text
