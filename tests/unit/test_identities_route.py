"""POST /v1/identities over real HTTP, with stages that a test controls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from scripted import Avatar, Script

from e3rg.config import load_profile
from e3rg.gateway import identities
from e3rg.identities.store import IdentityStore
from e3rg.identities.types import PortraitReport
from e3rg.inprocess import served

FIELDS = {
    "id": "zoe",
    "name": "Zoe",
    "gender": "female",
    "age": "adult",
    "voice": "af_heart",
    "profile": "Zoe listens.",
}


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))


async def post(script: Script, fields: dict[str, str]) -> httpx.Response:
    store = IdentityStore(Path("unused"))
    files = {"portrait": ("face.jpg", store.portrait(store.default().portrait))}
    async with (
        served(load_profile("local"), script.stages()) as address,
        httpx.AsyncClient(timeout=30) as client,
    ):
        return await client.post(f"{address}/v1/identities", data=fields, files=files)


async def test_a_voice_that_the_engine_has() -> None:
    response = await post(Script(), FIELDS)
    assert response.status_code == 201, response.text
    assert response.json()["voice"] == "af_heart"


async def test_an_unknown_voice_is_refused_with_those_that_come_close(tmp_path: Path) -> None:
    response = await post(Script(), FIELDS | {"voice": "af_hart"})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (
        422,
        "identity_invalid",
        "voice",
    )
    assert "af_heart" in error["message"]
    assert not (tmp_path / "identities" / "zoe").exists()


async def test_a_missing_field_has_the_same_status() -> None:
    response = await post(Script(), {k: v for k, v in FIELDS.items() if k != "age"})
    assert response.status_code == 422
    assert response.json()["error"]["param"] == "age"


async def test_the_check_of_the_portrait_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(avatar: Avatar, portrait: bytes) -> PortraitReport:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(Avatar, "inspect", hang)
    monkeypatch.setattr(identities, "_INSPECT_S", 0.05)
    response = await post(Script(), FIELDS)
    assert (response.status_code, response.json()["error"]["code"]) == (504, "deadline_exceeded")
