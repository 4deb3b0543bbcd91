"""What clients see of admission, over every protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import pytest_asyncio
from gateway_kit import TURN, gateway, streamed
from openai import AsyncOpenAI
from scripted import Script

from e3rg.config import Profile, load_profile


def profile(capacity: dict[str, float] | None = None, **settings: Any) -> Profile:
    admission = {"queue_s": 0.5, "degrade_s": 0.05, **settings}
    if capacity is not None:
        admission["capacity"] = capacity
    return load_profile("local", {"admission": admission})


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))


@pytest_asyncio.fixture
async def script() -> AsyncIterator[Script]:
    script = Script()
    yield script
    for event in script.hold.values():
        event.set()


def error(answer: httpx.Response) -> Any:
    return answer.json()["error"]


async def test_a_rate_is_told_with_each_answer_and_refused_beyond() -> None:
    limits = {"requests_per_minute": 2, "tokens_per_minute": 100_000}
    body = {**TURN, "stream": False}
    async with gateway(Script(), profile(limits=limits)) as client:
        first = await client.post("/v1/turns", json=body)
        assert first.status_code == 200
        assert first.headers["x-ratelimit-limit-requests"] == "2"
        assert first.headers["x-ratelimit-remaining-requests"] == "1"
        assert int(first.headers["x-ratelimit-remaining-tokens"]) < 100_000
        assert "x-ratelimit-reset-requests" in first.headers
        async with client.stream("POST", "/v1/turns", json=TURN) as second:
            assert second.headers["x-ratelimit-remaining-requests"] == "0"
            await second.aread()
        third = await client.post("/v1/turns", json=body)
        assert third.status_code == 429
        assert (error(third)["code"], error(third)["type"]) == (
            "rate_limit_exceeded",
            "rate_limit_error",
        )
        assert 1 <= int(third.headers["retry-after"]) <= 30
        assert third.headers["x-ratelimit-remaining-requests"] == "0"
        # The same tenant, through the official client.
        async with AsyncOpenAI(
            base_url=f"{client.base_url}/v1", api_key="x", max_retries=0
        ) as official:
            with pytest.raises(openai.RateLimitError) as refused:
                await official.embeddings.create(model="all-minilm-l6-v2", input="hello")
            assert refused.value.code == "rate_limit_exceeded"


async def test_a_used_up_quota_is_another_error_than_a_rate() -> None:
    async with gateway(Script(), profile(limits={"quota": {"audio_out_ms": 10}})) as client:
        voiced = await client.post("/v1/turns", json={**TURN, "stream": False})
        assert voiced.status_code == 429
        assert error(voiced)["code"] == "insufficient_quota"
        assert "audio_out_ms" in error(voiced)["message"]
        spoken = await client.post(
            "/v1/audio/speech", json={"model": "tts-1", "voice": "alloy", "input": "Hello there."}
        )
        assert (spoken.status_code, error(spoken)["code"]) == (429, "insufficient_quota")
        written = {**TURN, "stream": False, "reply_with": "text"}
        assert (await client.post("/v1/turns", json=written)).status_code == 200


async def test_no_room_for_video_gives_a_still_aloud(script: Script) -> None:
    script.hold["avatar"] = asyncio.Event()
    async with gateway(script, profile({"avatar": 25.0, "speech": 2.0})) as client:
        first = asyncio.create_task(streamed(client, json=TURN))
        await script.until_working("avatar")
        second = await streamed(client, json={**TURN, "conversation": "other"})
        told = [data for name, data in second if name == "degraded"]
        assert [(each["wanted"], each["given"], each["code"]) for each in told] == [
            ("video", "still", "overloaded")
        ]
        assert any(name == "audio.chunk" or name == "video.segment" for name, _ in second)
        assert second[-1][0] == "turn.completed"
        never = {**TURN, "conversation": "third", "degrade": "never", "stream": False}
        refused = await client.post("/v1/turns", json=never)
        assert (refused.status_code, error(refused)["code"]) == (503, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        script.hold["avatar"].set()
        whole = await first
        assert whole[-1][0] == "turn.completed"
        assert not [1 for name, _ in whole if name == "degraded"]


async def test_no_room_for_a_voice_gives_text(script: Script) -> None:
    script.hold["speech"] = asyncio.Event()
    async with gateway(script, profile({"speech": 1.0})) as client:
        first = asyncio.create_task(streamed(client, json=TURN))
        await script.until_working("speech")
        second = await streamed(client, json={**TURN, "conversation": "other"})
        told = [data for name, data in second if name == "degraded"]
        assert [(each["wanted"], each["given"]) for each in told] == [("video", "text")]
        assert second[-1][1]["text"] == script.reply
        script.hold["speech"].set()
        await first


async def test_a_queue_that_ends_says_when_to_come_again(script: Script) -> None:
    script.hold["dialogue"] = asyncio.Event()
    async with gateway(script, profile({"dialogue": 1.0})) as client:
        first = asyncio.create_task(streamed(client, json=TURN))
        await script.until_working("dialogue")
        answer = await client.post("/v1/turns", json={**TURN, "stream": False})
        assert (answer.status_code, error(answer)["code"]) == (503, "overloaded")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        chat = {"model": "smollm2-135m-instruct", "messages": [{"role": "user", "content": "Hi"}]}
        bare = await client.post("/v1/chat/completions", json=chat)
        assert (bare.status_code, error(bare)["code"]) == (503, "overloaded")
        waiting = asyncio.create_task(client.post("/v1/turns", json={**TURN, "stream": False}))
        await asyncio.sleep(0.05)
        script.hold["dialogue"].set()
        assert (await waiting).status_code == 200
        await first


async def test_turns_at_once_are_bounded_for_a_tenant(script: Script) -> None:
    script.hold["dialogue"] = asyncio.Event()
    async with gateway(script, profile(limits={"concurrent_turns": 1})) as client:
        first = asyncio.create_task(streamed(client, json=TURN))
        await script.until_working("dialogue")
        body = {**TURN, "stream": False}
        waiting = [asyncio.create_task(client.post("/v1/turns", json=body)) for _ in range(3)]
        codes = [(each.status_code, error(each)["code"]) for each in await asyncio.gather(*waiting)]
        assert codes == [(429, "rate_limit_exceeded")] * 3
        script.hold["dialogue"].set()
        await first
        assert (await client.post("/v1/turns", json=body)).status_code == 200


async def test_limits_that_are_wrong_stop_the_start() -> None:
    with pytest.raises(ValueError, match=r"quota.*'tokens'"):
        async with gateway(Script(), profile(limits={"quota": {"tokens": 5}})):
            pass
