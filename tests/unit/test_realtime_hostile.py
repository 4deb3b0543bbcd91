"""What no client should send: told, or closed with a reason; never a hang, a crash or a leak."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from realtime_kit import silence, talk
from scripted import Script
from starlette.types import Message
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.typing import Origin, Subprotocol

from e3rg.config import GatewayConfig, load_profile
from e3rg.gateway.realtime import session as sessions
from e3rg.gateway.realtime import websocket as transports
from e3rg.gateway.realtime.speech_input import SpeechInput, Started, Stopped
from e3rg.inprocess import served
from e3rg.turn.events import AudioChunk

NAMES = [
    "session.update",
    "input_audio_buffer.append",
    "input_audio_buffer.commit",
    "input_audio_buffer.clear",
    "conversation.item.create",
    "conversation.item.retrieve",
    "conversation.item.delete",
    "conversation.item.truncate",
    "response.create",
    "response.cancel",
    "output_audio_buffer.clear",
    "e3rg.input_image.append",
    "no.such.event",
]
FIELDS = [
    "event_id",
    "session",
    "audio",
    "item",
    "item_id",
    "previous_item_id",
    "response",
    "image",
    "audio_end_ms",
    "content_index",
]


@pytest.fixture
def script() -> Script:
    return Script(reply="Yes.")


@pytest.fixture
async def address(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    gateway = GatewayConfig(max_sessions=3)
    profile = load_profile("local").model_copy(update={"gateway": gateway})
    async with served(profile, script.stages()) as address:
        yield address


def url(address: str, query: str = "?model=e3rg") -> str:
    return f"{address.replace('http', 'ws', 1)}/v1/realtime{query}"


async def closed(socket: ClientConnection, wait_s: float = 15) -> tuple[int, str]:
    """How the server closes it."""
    with pytest.raises(ConnectionClosed) as end:
        async with asyncio.timeout(wait_s):
            while True:
                await socket.recv()
    assert end.value.rcvd is not None
    return end.value.rcvd.code, end.value.rcvd.reason


async def error_of(socket: ClientConnection, message: str | bytes) -> dict[str, Any]:
    await socket.send(message, text=True)
    event = json.loads(await socket.recv())
    assert event["type"] == "error", event
    return dict(event["error"])


async def test_what_is_no_event_is_told(address: str) -> None:
    async with connect(url(address)) as socket:
        await socket.recv()
        half = '{"type":"session.update","session":{"type":"realtime","\\ud800":1}}'
        named = '{"type": "no.such.event", "event_id": "\\ud800"}'
        lone = '{"type": "conversation.item.retrieve", "item_id": "\\ud800"}'
        nan = '{"type":"session.update","session":{"type":"realtime","max_output_tokens":NaN}}'
        deep = '{"type":"session.update","session":{"type":"realtime","tracing":%s}}'
        deep = deep % ("[" * 950 + "]" * 950)
        ends = ("", "{", "[]", "5", "null", '{"type": 5}', "[" * 100_000, '"\\ud800"')
        for message in (*ends, half, named, lone, nan, deep):
            assert (await error_of(socket, message))["code"] == "invalid_event", message[:90]
        odd = json.dumps({"type": "response.cancel", "event_id": {"a": 1}})
        assert (await error_of(socket, odd))["event_id"] is None


async def test_what_is_no_message_closes(address: str) -> None:
    async with connect(url(address)) as socket:
        await socket.send(b"\x00\x01")
        code, reason = await closed(socket)
        assert code == 1003 and "binary" in reason
    async with connect(url(address)) as socket:
        # The client library itself would not send it.
        frame = Frame(Opcode.TEXT, b"\xff\xfe").serialize(mask=True)
        socket.transport.write(frame)
        assert (await closed(socket))[0] == 1007
    for size in (9_000_000, 17_000_000):
        async with connect(url(address)) as socket:
            await socket.send("x" * size)
            assert (await closed(socket))[0] == 1009


async def test_half_closed_and_dropped_connections_free_their_places(address: str) -> None:
    for _ in range(4):  # more than there are places
        socket = await connect(url(address))
        await socket.recv()
        await socket.send('{"type": "response.create"}')
        if socket.transport.can_write_eof():
            socket.transport.write_eof()
        await asyncio.sleep(0.05)
        socket.transport.abort()
        await asyncio.sleep(0.2)
    async with talk(address) as talking:
        await talking.say()
        assert (await talking.reply())["status"] == "completed"


async def test_refused_connections_say_why(address: str) -> None:
    async with connect(url(address, "?model=nobody")) as socket:
        assert json.loads(await socket.recv())["error"]["code"] == "model_not_found"
        assert (await closed(socket))[0] == 1008
    async with connect(url(address, "?model=kokoro-82m")) as socket:
        assert json.loads(await socket.recv())["error"]["code"] == "model_not_supported"
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url(address), origin=Origin("https://elsewhere.example")):
            pass
    assert refused.value.response.status_code == 403
    assert b"origin_refused" in (refused.value.response.body or b"")
    host = address.removeprefix("http://")
    own = Origin(f"http://{host}")
    async with connect(url(address), origin=own, subprotocols=[Subprotocol("realtime")]) as socket:
        assert socket.subprotocol == "realtime"
        async with connect(url(address)), connect(url(address)), connect(url(address)) as fourth:
            assert json.loads(await fourth.recv())["error"]["code"] == "overloaded"
            assert (await closed(fourth))[0] == 1013
    async with talk(address):
        pass


async def test_sessions_end(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "IDLE_S", 0.3)
    async with connect(url(address)) as socket:
        await socket.recv()
        expired = json.loads(await socket.recv())
        assert expired["error"]["code"] == "session_expired"
        assert (await closed(socket))[0] == 1001


async def test_one_session_takes_not_every_place(address: str, script: Script) -> None:
    script.hold["transcribe"] = asyncio.Event()
    async with talk(address) as talking:
        await talking.configure(audio={"input": {"turn_detection": None}})
        for _ in range(20):
            await talking.append(silence(0.2))
            await talking.send("input_audio_buffer.commit")
        failed = await talking.until("conversation.item.input_audio_transcription.failed")
        assert failed["error"]["code"] == "overloaded"
        assert script.working["transcribe"] == 1
        script.hold["transcribe"].set()
        name = "conversation.item.input_audio_transcription.completed"
        while len(talking.of(name)) < 16:
            await talking.next()


async def test_a_reply_that_is_cut_often_is_kept_as_cut_last(address: str, script: Script) -> None:
    script.reply = "One two three four five."
    async with talk(address) as talking:
        await talking.configure(e3rg={"user": "ann"})
        await talking.say()
        response = await talking.reply()
        item, turn = response["output"][0]["id"], talking.of("response.e3rg.timings")[0]["turn"]
        await asyncio.sleep(1.1)  # until it was heard
        script.hold["remember"] = asyncio.Event()
        before = sum(name == "remember" for name, _ in script.calls)
        for end in [*range(500), 400]:
            cut = {"item_id": item, "content_index": 0, "audio_end_ms": end}
            await talking.send("conversation.item.truncate", **cut)
        while len(talking.of("conversation.item.truncated")) < 501:
            await talking.next()
        script.hold["remember"].set()
        await talking.send("conversation.item.retrieve", item_id=item)
        kept = (await talking.until("conversation.item.retrieved"))["item"]["content"][0]
    assert sum(name == "remember" for name, _ in script.calls) - before < 5
    async with httpx.AsyncClient(base_url=address) as client:
        reply = (await client.get(f"/v1/turns/{turn}")).json()["text"]
    assert reply == kept["transcript"] == script.episodes[-1].reply != ""


async def test_a_flood_of_words_is_bounded(address: str, script: Script) -> None:
    part = {"type": "input_text", "text": "word " * 700}
    async with talk(address) as talking:
        item = {"type": "message", "role": "user", "content": [part] * 16}
        await talking.send("conversation.item.create", item=item)
        assert (await talking.until("error"))["error"]["code"] == "text_too_long"
        for _ in range(5):
            await talking.say(part["text"])
        assert (await talking.reply())["status"] == "completed"
        utterance = next(what for name, what in script.calls if name == "understanding")
        assert len(utterance.text) <= 4_000  # type: ignore[attr-defined]
        item = {"type": "message", "role": "system", "content": [part]}
        for _ in range(5):
            await talking.send("conversation.item.create", item=item)
        failed = await talking.reply()
        assert failed["status_details"]["error"]["code"] == "instructions_too_long"


async def test_minutes_of_sound_in_one_event_are_refused(address: str) -> None:
    g711 = base64.b64encode(bytes(8_000 * 121)).decode()  # two minutes and a second
    async with talk(address) as talking:
        await talking.configure(audio={"input": {"format": {"type": "audio/pcmu"}}})
        await talking.send("input_audio_buffer.append", audio=g711)
        assert (await talking.until("error"))["error"]["code"] == "audio_too_long"
        content = [{"type": "input_audio", "audio": g711}]
        item = {"type": "message", "role": "user", "content": content}
        await talking.send("conversation.item.create", item=item)
        assert (await talking.until("error"))["error"]["code"] == "audio_too_long"


async def test_what_is_said_after_a_fault_is_heard(
    address: str, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [Started(0), Stopped(500, silence(0.5, 16_000))]
    monkeypatch.setattr(SpeechInput, "feed", lambda *_: said * 3)
    script.hold["dialogue"] = asyncio.Event()
    async with talk(address) as talking:
        detection = {"type": "server_vad", "interrupt_response": False}
        await talking.configure(audio={"input": {"turn_detection": detection}})
        await talking.append(silence(0.1))
        error = (await talking.until("error"))["error"]
        assert error["code"] == "conversation_already_has_active_response"
        assert len(talking.of("input_audio_buffer.committed")) == 3


class Deaf(WebSocket):
    """The server's end of a connection whose other end reads nothing: no message ever gets out."""

    def __init__(self) -> None:
        super().__init__({"type": "websocket"}, self._nothing, self._stuck)
        self.closing = 0

    async def _nothing(self) -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def _stuck(self, message: Message) -> None:
        self.closing += message["type"] == "websocket.close"
        await asyncio.Event().wait()

    async def send_text(self, data: str) -> None:
        await self._stuck({"type": "websocket.send", "text": data})

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        assert (code, reason) == (1013, "the client reads too slowly; connect again")
        await self._stuck({"type": "websocket.close"})


async def test_who_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "_PATIENCE_S", 0.3)
    monkeypatch.setattr(transports, "_GOODBYE_S", 0.3)
    deaf = Deaf()
    transport = transports.WebSocketTransport(deaf)
    writing = asyncio.create_task(transport.run())
    async with asyncio.timeout(10):
        for _ in range(200):  # 20 MB, of which a bounded part waits
            await transport.send({"type": "error", "text": "x" * 100_000})
        await transport.audio(AudioChunk("", silence(1), 0, ()))
        await writing
    assert deaf.closing == 1


def frame(chance: random.Random) -> str | bytes:
    """Something random: words, JSON, events with fields of all kinds."""
    values: list[Any] = [
        None,
        True,
        -1,
        2**70,
        1e308,
        "",
        "x" * 300,
        "\ud83d\ude00",
        [],
        {},
        {"type": "realtime"},
        {"type": "realtime", "output_modalities": ["text"]},
        {"type": "realtime", "audio": {"input": {"turn_detection": None}}},
        {"type": "realtime", "audio": {"input": {"format": {"type": "audio/pcmu"}}}},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text"}]},
        {"output_modalities": ["text"]},
        {"input": [5]},
        base64.b64encode(chance.randbytes(chance.randrange(4_000))).decode(),
        "data:image/jpeg;base64,AAAA",
        "root",
    ]
    kind = chance.random()
    if kind < 0.15:
        return "".join(chr(chance.randrange(32, 1_000)) for _ in range(chance.randrange(200)))
    event = {name: chance.choice(values) for name in chance.sample(FIELDS, chance.randrange(5))}
    text = json.dumps({"type": chance.choice(NAMES), **event})
    if kind < 0.3:
        at = chance.randrange(len(text))
        text = text[:at] + chance.choice('{}[]",:x') + text[at + chance.randrange(3) :]
    return text


async def storm(address: str, count: int, seed: int) -> int:
    """Send random frames; how many answers came before that of the last one."""
    chance = random.Random(seed)

    async def read(socket: ClientConnection) -> int:
        answers = 0
        async for message in socket:
            event = json.loads(message)
            fault = event.get("error", {})
            assert fault.get("code") != "internal_error", event
            if fault.get("event_id") == "the end":
                return answers
            answers += 1
        raise AssertionError("the session has ended")

    async with connect(url(address)) as socket:
        reading = asyncio.create_task(read(socket))
        for _ in range(count):
            await socket.send(frame(chance), text=True)
        await socket.send('{"type": "end", "event_id": "the end"}')
        return await reading


async def test_ten_thousand_random_frames(address: str) -> None:
    process = psutil.Process()
    before = tasks = objects = 0
    for seed in range(5):
        async with asyncio.timeout(120):
            assert await storm(address, 2_000, seed) > 1_000
        if seed == 1:
            gc.collect()
            before, objects = process.memory_info().rss, len(gc.get_objects())
            tasks = len(asyncio.all_tasks())
    gc.collect()
    assert process.memory_info().rss - before < 20_000_000
    assert len(gc.get_objects()) - objects < 5_000
    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > tasks:
            await asyncio.sleep(0.05)
    async with talk(address) as talking:
        await talking.say()
        assert (await talking.reply())["status"] == "completed"
