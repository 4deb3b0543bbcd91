"""/v1/models with the official client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
from openai_kit import client_of
from scripted import Script


@pytest.fixture
async def client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(Script().stages(), tmp_path, monkeypatch) as client:
        yield client


async def test_every_model_can_be_retrieved_as_listed(client: openai.AsyncOpenAI) -> None:
    listed = [model async for model in client.models.list()]
    names = [model.id for model in listed]
    assert names[0] == "e3rg"
    assert {"e3rg-clara", "smollm2-135m-instruct", "kokoro-82m", "all-minilm-l6-v2"} <= set(names)
    for model in listed:
        again = await client.models.retrieve(model.id)
        assert again == model
        assert (again.object, again.owned_by, again.created) == ("model", "e3rg", 1_796_083_200)


async def test_aliases_lead_to_the_true_name(client: openai.AsyncOpenAI) -> None:
    model = await client.models.retrieve("whisper-1")
    assert model.id == "whisper-tiny.en"
    extra = model.model_extra or {}
    assert extra["kind"] == "transcription"
    assert "whisper-1" in extra["aliases"]


@pytest.mark.parametrize("name", ["gpt-9", "a/b c?", "e3rg-nobody", "../../etc", "x" * 300])
async def test_unknown_models(client: openai.AsyncOpenAI, name: str) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await client.models.retrieve(name)
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"
