"""/v1/chat/completions of the bare model: the official client, and the real llama.cpp."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest
from openai_kit import BARE, client_of, said
from scripted import Script

from e3rg.local_context import engine_context
from e3rg.stages.dialogue.llama import LlamaDialogue

COUNT = said("Count from one to ten in words.")


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaDialogue]:
    engine = LlamaDialogue.load(engine_context(), context_tokens=512)
    yield engine
    engine.close()


@pytest.fixture
async def client(
    llama: LlamaDialogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[openai.AsyncOpenAI]:
    stages = dataclasses.replace(Script().stages(), dialogue=llama)
    async with client_of(stages, tmp_path, monkeypatch) as client:
        yield client


async def ask(client: openai.AsyncOpenAI, **fields: Any) -> Any:
    asked = {"model": BARE, "messages": COUNT, "temperature": 0, "max_tokens": 24} | fields
    return await client.chat.completions.create(**asked)


async def idle(llama: LlamaDialogue) -> None:
    async with asyncio.timeout(20):
        while llama.generating:
            await asyncio.sleep(0.01)


async def test_the_same_as_llama_itself(client: openai.AsyncOpenAI, llama: LlamaDialogue) -> None:
    async with openai.AsyncOpenAI(base_url=f"{llama.address}/v1", api_key="x") as own:
        theirs = await ask(own, seed=1)
    ours = await ask(client, seed=1)
    assert ours.choices[0].message.content == theirs.choices[0].message.content
    assert ours.choices[0].finish_reason == theirs.choices[0].finish_reason == "length"
    assert (ours.usage.prompt_tokens, ours.usage.completion_tokens) == (
        theirs.usage.prompt_tokens,
        24,
    )
    stream = await ask(client, seed=1, stream=True, stream_options={"include_usage": True})
    *chunks, last = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == ours.choices[0].message.content
    assert len(chunks) > 12  # token by token
    assert last.usage == ours.usage
    assert chunks[-1].choices[0].finish_reason == "length"


async def test_stop_reaches_across_chunks(client: openai.AsyncOpenAI) -> None:
    whole = (await ask(client)).choices[0].message.content
    stop = whole[10:22]  # letters of several tokens
    assert " " in stop.strip()
    for stream in (False, True):
        answer = await ask(client, stop=["never said", stop], stream=stream)
        if stream:
            seen = [chunk.choices[0] async for chunk in answer]
            text = "".join(choice.delta.content or "" for choice in seen)
            reason = seen[-1].finish_reason
        else:
            text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
        assert (text, reason) == (whole[: whole.index(stop)], "stop")


async def test_json_by_schema_is_parsed_by_the_client(client: openai.AsyncOpenAI) -> None:
    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=12)
        age: int

    answer = await client.chat.completions.parse(
        model=BARE,
        messages=said("Invent a person: name and age."),
        response_format=Person,
        max_tokens=80,
        seed=1,
    )
    assert isinstance(answer.choices[0].message.parsed, Person)
    free = await ask(
        client,
        messages=said("A person as JSON: name, age."),
        max_tokens=120,
        temperature=0.3,
        top_p=0.8,
        frequency_penalty=0.4,
        response_format={"type": "json_object"},
        seed=1,
    )
    assert isinstance(json.loads(free.choices[0].message.content), dict)


async def test_what_is_too_long_is_refused(client: openai.AsyncOpenAI) -> None:
    messages = [*said("Hello. " * 200), {"role": "assistant", "content": "Hi."}] * 2 + said()
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="holds 512") as caught:
            await ask(client, messages=messages, stream=stream)
        assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")


async def test_the_window_ends_a_reply(client: openai.AsyncOpenAI) -> None:
    answer = await ask(client, messages=said("word " * 450), max_tokens=10**30)
    assert answer.choices[0].finish_reason in {"length", "stop"}
    assert answer.usage.total_tokens <= 512


@pytest.mark.parametrize("stream", [True, False])
async def test_leaving_stops_the_generation(
    client: openai.AsyncOpenAI, llama: LlamaDialogue, stream: bool
) -> None:
    story = {"messages": said("Tell a very long story."), "max_tokens": None, "temperature": 1}
    if stream:
        stories = [await ask(client, stream=True, **story) for _ in range(2)]
        for each in stories:
            await anext(aiter(each))
        assert llama.generating == 2
        for each in stories:
            await each.close()
    else:
        tasks = [asyncio.create_task(ask(client, **story)) for _ in range(3)]
        async with asyncio.timeout(10):
            while llama.generating < 3:
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await idle(llama)
    assert (await ask(client, max_tokens=2)).usage.completion_tokens == 2


async def test_an_engine_that_stops_is_told_in_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await asyncio.to_thread(LlamaDialogue.load, engine_context())
    stages = dataclasses.replace(Script().stages(), dialogue=engine)
    async with client_of(stages, tmp_path, monkeypatch) as client:
        stream = await ask(client, stream=True, max_tokens=None, messages=said("A long story."))
        await anext(aiter(stream))
        await asyncio.to_thread(engine.close)
        with pytest.raises(openai.APIError, match="being stopped") as caught:
            async for _ in stream:
                pass
        assert caught.value.code == "dialogue_unavailable"
        with pytest.raises(openai.InternalServerError):
            await ask(client)
