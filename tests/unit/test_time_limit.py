"""X-Request-Timeout bounds every endpoint, and no client gets more time than the profile gives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from gateway_kit import TURN, gateway
from scripted import Script

TALK = {"model": "e3rg", "messages": [{"role": "user", "content": "I lost my dog."}]}
ENDPOINTS: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/turns", {**TURN, "stream": False, "reply_with": "text"}, "dialogue"),
    ("/v1/chat/completions", TALK, "dialogue"),
    ("/v1/chat/completions", {**TALK, "model": "smollm2-135m-instruct"}, "dialogue"),
    ("/v1/audio/speech", {"model": "kokoro-82m", "voice": "af_heart", "input": "Yes."}, "speech"),
    ("/v1/embeddings", {"model": "all-minilm-l6-v2", "input": "Yes."}, "embed"),
]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))


@pytest.mark.parametrize(("path", "body", "stage"), ENDPOINTS)
async def test_the_header_ends_what_takes_too_long(
    path: str, body: dict[str, Any], stage: str
) -> None:
    script = Script()
    script.hold[stage] = asyncio.Event()
    async with gateway(script) as client:
        late = await client.post(path, json=body, headers={"X-Request-Timeout": "0.3"})
        assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline_exceeded")
        await script.until_idle()


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf", "", "1e999", "１"])
async def test_what_is_no_time_is_refused_by_name(value: str) -> None:
    async with gateway(Script()) as client:
        headers = {"X-Request-Timeout": value.encode()}
        bad = await client.post("/v1/turns", json=TURN, headers=headers)
        error = bad.json()["error"]
        assert (bad.status_code, error["code"]) == (400, "invalid_timeout")
        assert error["param"] == "X-Request-Timeout"


async def test_nobody_gets_more_time_than_the_profile_gives() -> None:
    async with gateway(Script()) as client:
        long = await client.post("/v1/turns", json=TURN, headers={"X-Request-Timeout": "999"})
        assert (long.status_code, long.json()["error"]["code"]) == (400, "timeout_too_long")
