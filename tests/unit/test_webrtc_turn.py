"""Media through a real TURN server (coturn) on the loopback interface; skipped where it is not."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from aiortc import RTCIceServer
from scripted import Script
from test_webrtc_calls import SDP, profile
from webrtc_client import Client, closing

from e3rg.config import IceServer
from e3rg.inprocess import served

TURNSERVER = shutil.which("turnserver")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def turn(tmp_path: Path) -> Iterator[str]:
    if TURNSERVER is None:
        pytest.skip("coturn, a system service, is not installed; .ci/run installs it")
    port = free_port()
    options = (
        f"-n -p {port} --listening-ip=127.0.0.1 --relay-ip=127.0.0.1 --allow-loopback-peers "
        f"--no-tls --no-dtls --no-cli --lt-cred-mech --realm=test --user=ann:secret "
        f"--pidfile={tmp_path}/pid --db={tmp_path}/db --log-file={tmp_path}/log --simple-log"
    )
    server = subprocess.Popen(
        [TURNSERVER, *options.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"turn:127.0.0.1:{port}?transport=udp"
    finally:
        server.terminate()
        server.wait(10)


async def test_media_pass_the_turn_server_alone(
    turn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    script = Script()
    script.reply = "I am so sorry."
    server = IceServer(urls=(turn,), username="ann", credential="secret")
    async with (
        served(profile(ice_servers=(server,), ice_relay_only=True), script.stages()) as address,
        httpx.AsyncClient(base_url=address, timeout=30) as http,
    ):
        told = (await http.get("/v1/realtime/ice")).json()["ice_servers"]
        client = Client(ice_servers=[RTCIceServer(**each) for each in told])
        async with closing(client):
            response = await http.post(
                "/v1/realtime/calls", content=await client.offer(), headers=SDP
            )
            candidates = [line for line in response.text.splitlines() if "candidate:" in line]
            assert candidates and all(" typ relay" in line for line in candidates), candidates
            await client.accept(response.text)
            await client.event("session.created")
            content = [{"type": "input_text", "text": "My dog died."}]
            item = {"type": "message", "role": "user", "content": content}
            client.send("conversation.item.create", item=item)
            client.send("response.create")
            await client.event("output_audio_buffer.stopped")
            await client.until(lambda: client.sound and client.pictures)
            await http.post(f"{response.headers['location']}/hangup")
            await asyncio.sleep(0.1)


async def test_a_dead_turn_server_costs_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    server = IceServer(
        urls=(f"turn:127.0.0.1:{free_port()}?transport=udp",), username="a", credential="b"
    )
    async with (
        served(profile(ice_servers=(server,)), Script().stages()) as address,
        httpx.AsyncClient(base_url=address, timeout=30) as http,
    ):
        client = Client(video=False)
        async with closing(client):
            response = await http.post(
                "/v1/realtime/calls", content=await client.offer(), headers=SDP
            )
            assert response.status_code == 201
            await client.accept(response.text)
            await client.event("session.created")
