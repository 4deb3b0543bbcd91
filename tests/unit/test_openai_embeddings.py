"""/v1/embeddings with the official client, on the real memory stage."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from openai_kit import client_of
from scripted import Script

from e3rg.config import model_dir
from e3rg.embedding.minilm import MiniLmEmbedder
from e3rg.engines import EngineContext
from e3rg.local_context import engine_context
from e3rg.models.store import ModelStore
from e3rg.stages.memory.milvus import MilvusMemory

MODEL = "all-minilm-l6-v2"


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusMemory]:
    context: EngineContext = engine_context()
    engine = MilvusMemory.load(dataclasses.replace(context, data=tmp_path_factory.mktemp("memory")))
    yield engine
    engine.close()


@pytest.fixture
async def client(
    memory: MilvusMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[openai.AsyncOpenAI]:
    stages = dataclasses.replace(Script().stages(), memory=memory)
    async with client_of(stages, tmp_path, monkeypatch) as client:
        yield client


async def test_vectors_in_both_encodings(client: openai.AsyncOpenAI) -> None:
    texts = ["I lost my dog.", "The train was late.", "My dog died."]
    packed = await client.embeddings.create(model=MODEL, input=texts)  # base64, by default
    plain = await client.embeddings.create(model=MODEL, input=texts, encoding_format="float")
    vectors = np.array([item.embedding for item in packed.data])
    assert vectors.shape == (3, 384)
    assert [item.index for item in packed.data] == [0, 1, 2]
    assert np.array_equal(vectors, np.array([item.embedding for item in plain.data]))
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[1]
    embedder = MiniLmEmbedder.load(ModelStore(model_dir()))
    assert np.allclose(vectors, embedder.embed(texts), atol=1e-5)
    assert packed.usage.prompt_tokens == packed.usage.total_tokens == embedder.count(texts)
    assert packed.model == MODEL


async def test_one_text_by_an_alias(client: openai.AsyncOpenAI) -> None:
    answer = await client.embeddings.create(
        model="text-embedding-3-small", input="Hello", dimensions=384, user="ann"
    )
    assert (answer.model, len(answer.data), answer.usage.prompt_tokens) == (MODEL, 1, 3)


async def test_a_large_batch_keeps_its_order(client: openai.AsyncOpenAI) -> None:
    texts = [f"{number}" for number in range(600)]
    answer = await client.embeddings.create(model=MODEL, input=texts)
    assert len(answer.data) == 600
    alone = await client.embeddings.create(model=MODEL, input="432")
    assert np.allclose(answer.data[432].embedding, alone.data[0].embedding, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": ""}, "invalid_input", "input"),
        ({"input": []}, "invalid_input", "input"),
        ({"input": ["a", ""]}, "invalid_input", "input"),
        ({"input": ["a"] * 2049}, "invalid_input", "input"),
        ({"input": "a" * 500_001}, "invalid_input", "input"),
        ({"input": [1, 2, 3]}, "unsupported_parameter", "input"),
        ({"input": [[1, 2], [3]]}, "unsupported_parameter", "input"),
        ({"input": ["a", 1]}, "invalid_type", None),
        ({"input": None}, "invalid_type", None),
        ({"dimensions": 64}, "unsupported_parameter", "dimensions"),
        ({"dimensions": 0}, "invalid_type", "dimensions"),
        ({"encoding_format": "int8"}, "invalid_type", "encoding_format"),
        ({"extra_body": {"surprise": 1}}, "unknown_field", "surprise"),
        ({"model": "e3rg"}, "model_not_supported", "model"),
    ],
)
async def test_bad_input(
    client: openai.AsyncOpenAI, fields: dict[str, Any], code: str, param: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.embeddings.create(**{"model": MODEL, "input": "Hello"} | fields)
    assert caught.value.code == code
    assert param is None or caught.value.param == param


async def test_an_unknown_model(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await client.embeddings.create(model="text-embedding-9", input="Hello")
    assert caught.value.code == "model_not_found"


async def test_leaving_stops_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    script.hold["embed"] = asyncio.Event()
    async with client_of(script.stages(), tmp_path, monkeypatch, max_calls=1) as client:
        asking = asyncio.create_task(client.embeddings.create(model=MODEL, input="Hello"))
        await script.until_working("embed")
        with pytest.raises(openai.InternalServerError) as caught:
            await client.embeddings.create(model=MODEL, input="Hello")
        assert (caught.value.status_code, caught.value.code) == (503, "overloaded")
        asking.cancel()
        async with asyncio.timeout(5):
            while script.working["embed"]:
                await asyncio.sleep(0.01)
        script.hold["embed"].set()
        assert (await client.embeddings.create(model=MODEL, input="Hello")).data
