"""The gateway over scripted stages: real HTTP, real stores, and faults at chosen moments."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted import REPLY, Script

from e3rg.config import GatewayConfig, Profile, load_profile
from e3rg.errors import E3RGError
from e3rg.inprocess import served
from e3rg.media.probe import measure_skew
from e3rg.stages.dialogue.engine import DialogueRequest

TURN = {"text": "I lost my dog.", "conversation": "chat"}


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def client(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    profile: Profile = load_profile("local").model_copy(
        update={"gateway": GatewayConfig(max_turns=3)}
    )
    async with (
        served(profile, script.stages()) as address,
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        yield client


async def events(client: httpx.AsyncClient, leave_after: str = "", **body: Any) -> list[Any]:
    seen: list[Any] = []
    async with client.stream("POST", "/v1/turns", json={**TURN, **body}) as response:
        assert response.status_code == 200, await response.aread()
        name = ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                seen.append((name, json.loads(line.removeprefix("data: "))))
                if name == leave_after:
                    break
    return seen


async def metric(client: httpx.AsyncClient, name: str) -> float:
    text = (await client.get("/metrics")).text
    lines = [line for line in text.splitlines() if line.split("{")[0].split()[0] == name]
    return sum(float(line.split()[-1]) for line in lines)


async def idle(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(10):
        while await metric(client, "e3rg_turns_active"):
            await asyncio.sleep(0.02)


async def ask(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await client.post("/v1/turns", json={**TURN, "stream": False, **body})


async def test_every_way_of_asking(client: httpx.AsyncClient) -> None:
    seen = await events(client)
    assert seen[-1][0] == "turn.completed"
    record = (await client.get(f"/v1/turns/{seen[0][1]['id']}")).json()
    assert (record["status"], record["text"]) == ("completed", REPLY)
    answer = (await ask(client)).json()
    assert answer["text"] == REPLY
    assert measure_skew((await client.get(answer["video"])).content).skew_ms <= 40
    clip = await ask(client, format="mp4")
    assert clip.headers["content-type"] == "video/mp4"
    none = await ask(client, format="mp4", reply_with="text")
    assert (none.status_code, none.json()["error"]["code"]) == (422, "no_video")


@pytest.mark.parametrize(
    ("number", "status", "code"),
    [(errno.ENOSPC, 507, "disk_full"), (errno.EIO, 500, "storage_failed")],
)
async def test_a_full_disk_costs_the_clip_and_nothing_else(
    client: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    status: int,
    code: str,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr("os.fsync", refuse)
    seen = await events(client)
    assert [data["code"] for name, data in seen if name == "degraded"] == [code]
    assert seen[-1][0] == "turn.completed"
    answer = (await ask(client)).json()
    assert (answer["text"], answer["video"], answer["error"]["code"]) == (REPLY, None, code)
    clip = await ask(client, format="mp4")
    assert (clip.status_code, clip.json()["error"]["code"]) == (status, code)
    record = (await client.get(f"/v1/turns/{seen[0][1]['id']}")).json()
    assert record["usage"]["video_frames"] > 0
    await idle(client)


@pytest.mark.parametrize("moment", ["turn.created", "text.delta", "video.segment", "usage"])
async def test_whoever_leaves_is_recorded_and_gives_the_place_back(
    client: httpx.AsyncClient, script: Script, moment: str
) -> None:
    seen = await events(client, leave_after=moment)
    await idle(client)
    assert script.idle
    record = (await client.get(f"/v1/turns/{seen[0][1]['id']}")).json()
    assert record["status"] in {"cancelled", "completed"}


async def test_hasty_clients_leak_no_place(client: httpx.AsyncClient, script: Script) -> None:
    for number in range(30):
        body = {**TURN, "stream": number % 2 == 0}
        task = asyncio.create_task(client.post("/v1/turns", json=body))
        await asyncio.sleep(0.001 * (number % 7))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await idle(client)
    assert script.idle
    assert (await ask(client)).status_code == 200


async def test_leaving_before_one_answer_stops_the_work(
    client: httpx.AsyncClient, script: Script
) -> None:
    script.hold["dialogue"] = asyncio.Event()
    task = asyncio.create_task(ask(client))
    await script.until_working("dialogue")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await idle(client)
    assert script.idle


async def test_full_is_said_with_503(client: httpx.AsyncClient, script: Script) -> None:
    script.hold["dialogue"] = asyncio.Event()
    running = [asyncio.create_task(ask(client, reply_with="text")) for _ in range(3)]
    await script.until_working("dialogue", 3)
    refused = await ask(client)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
    assert int(refused.headers["retry-after"]) > 0
    script.hold["dialogue"].set()
    assert [answer.status_code for answer in await asyncio.gather(*running)] == [200] * 3


async def test_a_conversation_is_its_users_alone(client: httpx.AsyncClient, script: Script) -> None:
    await ask(client, text="Ann's secret.", user="ann", reply_with="text")
    for user, known in (({"user": "bob"}, False), ({}, False), ({"user": "ann"}, True)):
        await ask(client, text="What did I say?", reply_with="text", **user)
        prompt = [what for stage, what in script.calls if stage == "dialogue"][-1]
        assert isinstance(prompt, DialogueRequest)
        told = any("Ann's secret." in message.content for message in prompt.messages)
        assert told is known


async def test_a_removed_listener_does_not_end_a_conversation(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    first = (await ask(client, identity="daniel", reply_with="text")).json()
    assert first["identity"] == "daniel"
    assert (await ask(client, reply_with="text")).json()["identity"] == "daniel"


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"user": "a\x00b"}, "invalid_type", "user"),
        ({"user": "\ud800"}, "invalid_json", None),
        ({"user": ""}, "invalid_type", "user"),
        ({"timeout": 500}, "timeout_too_long", "timeout"),
        ({"audio": "UklGRg=="}, "unknown_field", "audio"),
    ],
)
async def test_bad_fields(
    client: httpx.AsyncClient, body: dict[str, Any], code: str, param: str | None
) -> None:
    content = json.dumps({**TURN, **body})
    response = await client.post(
        "/v1/turns", content=content, headers={"content-type": "application/json"}
    )
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (400, code, param)


async def test_odd_field_names_are_not_echoed(client: httpx.AsyncClient) -> None:
    body = b'--a\r\ncontent-disposition: form-data; name="\\ud800"\r\n\r\nx\r\n--a--\r\n'
    kind = "multipart/form-data; boundary=a; charset=unicode_escape"
    response = await client.post("/v1/turns", content=body, headers={"content-type": kind})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_multipart")
    response = await client.post("/v1/turns", json={"x" * 100_000: 1})
    assert response.status_code == 400
    assert len(response.content) < 2_000


async def test_endless_headers_are_cut_off(client: httpx.AsyncClient) -> None:
    try:
        response = await client.get("/healthz", headers={"x-long": "a" * 200_000})
        assert response.status_code in {400, 431}
    except httpx.TransportError:
        pass  # closed while the rest was still being sent
    assert (await client.get("/healthz")).status_code == 200


async def test_other_peoples_pages_are_refused(client: httpx.AsyncClient) -> None:
    evil = await client.post("/v1/turns", json=TURN, headers={"origin": "https://evil.example"})
    assert (evil.status_code, evil.json()["error"]["code"]) == (403, "origin_refused")
    odd = await client.post("/v1/turns", json=TURN, headers={"origin": "http://["})
    assert odd.status_code == 403
    own = str(client.base_url).rstrip("/")
    assert (await client.post("/v1/turns", json=TURN, headers={"origin": own})).status_code == 200


async def test_what_nobody_foresaw_is_a_500_with_an_id(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("/secret/path")

    monkeypatch.setattr("e3rg.gateway.wire.turn_json", broken)
    response = await ask(client, reply_with="text")
    assert (response.status_code, response.json()["error"]["code"]) == (500, "internal_error")
    assert response.headers["x-request-id"] in response.json()["error"]["message"]
    assert "secret" not in response.text


async def test_not_ready_names_the_stage(client: httpx.AsyncClient, script: Script) -> None:
    script.fail["avatar"] = script.fail["still"] = E3RGError(
        "avatar_unavailable", "gone", status=503
    )
    script.fail["speech"] = E3RGError("speech_busy", "busy", status=503)
    response = await client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["stages"] == {
        "understanding": "ok",
        "memory": "ok",
        "dialogue": "ok",
        "speech": "ok",
        "avatar": "avatar_unavailable",
        "records": "ok",
    }


async def test_wrong_methods_say_what_is_allowed(client: httpx.AsyncClient) -> None:
    response = await client.put("/v1/turns")
    assert (response.status_code, response.headers["allow"]) == (405, "POST, OPTIONS")
