"""A request that is sent again with its Idempotency-Key is done once."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_kit import TURN, gateway, streamed
from scripted import REPLY, Script

from e3rg.media.probe import measure_skew

KEY = {"Idempotency-Key": "5d2f8a"}


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def client(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    async with gateway(script) as client:
        yield client


def asked(script: Script) -> int:
    return [name for name, _ in script.calls].count("dialogue")


async def ask(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    body = {**TURN, "stream": False, **body}
    return await client.post("/v1/turns", json=body, headers=KEY)


async def test_the_same_answer_again(client: httpx.AsyncClient, script: Script) -> None:
    first, second = await ask(client), await ask(client)
    assert first.json() == second.json()
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert asked(script) == 1
    other = await client.post("/v1/turns", json={**TURN, "stream": False}, headers={})
    assert other.json()["id"] != first.json()["id"]


async def test_a_stream_again_is_whole(client: httpx.AsyncClient, script: Script) -> None:
    first = await streamed(client, json=TURN, headers=KEY)
    again = await streamed(client, json=TURN, headers=KEY)
    assert asked(script) == 1
    for name in ("turn.created", "emotion", "memory", "usage", "turn.completed"):
        assert [d for n, d in first if n == name] == [d for n, d in again if n == name], name
    films = [
        b"".join(base64.b64decode(d["data"]) for n, d in seen if n == "video.segment")
        for seen in (first, again)
    ]
    reports = [measure_skew(film) for film in films]
    assert reports[0].frames == reports[1].frames > 0
    assert reports[1].skew_ms <= 40
    assert "".join(d["text"] for n, d in again if n == "text.delta") == REPLY


async def test_sound_alone_is_not_kept_and_says_so(client: httpx.AsyncClient) -> None:
    body = {**TURN, "reply_with": "audio"}
    await streamed(client, json=body, headers=KEY)
    again = await streamed(client, json=body, headers=KEY)
    assert [d["code"] for n, d in again if n == "degraded"] == ["not_kept"]
    assert again[-1][0] == "turn.completed"


async def test_another_request_under_the_key_is_refused(client: httpx.AsyncClient) -> None:
    await ask(client)
    other = await ask(client, text="I lost my cat.")
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")


async def test_while_the_first_runs_the_second_waits(
    client: httpx.AsyncClient, script: Script
) -> None:
    script.hold["dialogue"] = asyncio.Event()
    first = asyncio.create_task(ask(client))
    await script.until_working("dialogue")
    second = await ask(client)
    assert (second.status_code, second.json()["error"]["code"]) == (409, "idempotency_in_progress")
    assert int(second.headers["retry-after"]) >= 1
    script.hold["dialogue"].set()
    assert (await first).status_code == 200
    assert (await ask(client)).json() == (await first).json()


async def test_two_hundred_at_once_are_one_turn(client: httpx.AsyncClient, script: Script) -> None:
    answers = await asyncio.gather(*(ask(client, reply_with="text") for _ in range(200)))
    assert asked(script) == 1
    assert {answer.status_code for answer in answers} <= {200, 409, 503}
    assert sum(answer.status_code == 200 for answer in answers) >= 1


async def test_who_left_and_comes_again_gets_a_turn(
    client: httpx.AsyncClient, script: Script
) -> None:
    script.hold["dialogue"] = asyncio.Event()
    with pytest.raises(httpx.ReadTimeout):
        body = {**TURN, "stream": False}
        await client.post("/v1/turns", json=body, headers=KEY, timeout=1)
    await script.until_idle()
    script.hold["dialogue"].set()
    async with asyncio.timeout(10):
        while (answer := await ask(client)).status_code == 409:
            await asyncio.sleep(0.05)
    assert (answer.status_code, answer.json()["text"]) == (200, REPLY)


async def test_a_refused_request_keeps_no_key(client: httpx.AsyncClient) -> None:
    bad = await ask(client, identity="nobody")
    assert bad.status_code == 404
    again = await ask(client, identity="nobody")
    assert again.status_code == 404
    assert (await ask(client)).status_code == 200


@pytest.mark.parametrize("key", ["", "x" * 256, "clé"])
async def test_odd_keys_are_refused(client: httpx.AsyncClient, key: str) -> None:
    headers = {"Idempotency-Key": key.encode()}
    bad = await client.post("/v1/turns", json=TURN, headers=headers)
    assert (bad.status_code, bad.json()["error"]["code"]) == (400, "invalid_idempotency_key")


async def test_a_video_is_asked_for_once(client: httpx.AsyncClient) -> None:
    form = {"prompt": "I lost my dog.", "model": "e3rg", "seconds": "4"}
    jobs = await asyncio.gather(
        *(client.post("/v1/videos", json=form, headers=KEY) for _ in range(8))
    )
    assert [job.status_code for job in jobs] == [200] * 8
    assert len({job.json()["id"] for job in jobs}) == 1
    assert len((await client.get("/v1/videos")).json()["data"]) == 1
    other = await client.post("/v1/videos", json={**form, "seconds": "8"}, headers=KEY)
    assert other.status_code == 422
