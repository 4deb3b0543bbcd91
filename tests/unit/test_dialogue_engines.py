"""Both dialogue engines on the real model; the remote one talks to llama.cpp's own HTTP server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from e3rg.config import ConfigError
from e3rg.deadline import bounded
from e3rg.engines import EngineContext
from e3rg.errors import E3RGError
from e3rg.local_context import engine_context
from e3rg.messages import Message
from e3rg.stages.dialogue.engine import DialogueEngine, DialogueRequest, TextDelta
from e3rg.stages.dialogue.llama import LlamaDialogue, _failure
from e3rg.stages.dialogue.openai import OpenAIDialogue


@pytest.fixture(scope="module")
def context() -> EngineContext:
    return engine_context()


@pytest.fixture(scope="module")
def llama(context: EngineContext) -> Iterator[LlamaDialogue]:
    engine = LlamaDialogue.load(context, context_tokens=1024)
    yield engine
    engine.close()


@pytest.fixture  # its connections belong to the test's event loop
def remote(llama: LlamaDialogue, context: EngineContext) -> OpenAIDialogue:
    return OpenAIDialogue.load(context, base_url=f"{llama.address}/v1", model="any")


@pytest.fixture(params=["llama", "remote"])
def engine(request: pytest.FixtureRequest) -> DialogueEngine:
    engine: DialogueEngine = request.getfixturevalue(request.param)
    return engine


def ask(text: str = "Hello! How are you?", **options: object) -> DialogueRequest:
    return DialogueRequest((Message("user", text),), **options)  # type: ignore[arg-type]


async def collect(stream: AsyncIterator[TextDelta]) -> list[TextDelta]:
    return [delta async for delta in stream]


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def words(deltas: list[TextDelta]) -> list[str]:
    return "".join(delta.text for delta in deltas).split()


async def test_streams_words_and_counts_tokens(engine: DialogueEngine) -> None:
    deltas = await collect(engine.stream(ask(max_tokens=12, seed=1)))
    assert len(deltas) > 3
    assert "".join(delta.text for delta in deltas).strip()
    last = deltas[-1]
    assert last.finish_reason == "length"
    assert (last.prompt_tokens > 5, last.completion_tokens) == (True, 12)
    assert all(delta.finish_reason is None for delta in deltas[:-1])


async def test_a_seed_repeats_the_reply(engine: DialogueEngine) -> None:
    texts = [
        "".join(d.text for d in await collect(engine.stream(ask(max_tokens=16, seed=7))))
        for _ in range(2)
    ]
    assert texts[0] == texts[1]


async def test_stop_words_end_the_reply(engine: DialogueEngine) -> None:
    request = ask("Count: one two three four", max_tokens=40, temperature=0.0)
    whole = "".join(d.text for d in await collect(engine.stream(request)))
    word = whole.split()[2]
    cut = await collect(
        engine.stream(
            ask("Count: one two three four", max_tokens=40, temperature=0.0, stop=(word,))
        )
    )
    assert word not in "".join(delta.text for delta in cut)
    assert cut[-1].finish_reason == "stop"


async def test_closing_stops_the_generation(llama: LlamaDialogue) -> None:
    """Both slots are cut short again and again; if one were still busy, the last would wait."""
    for _ in range(4):
        streams = [llama.stream(ask("Tell a long story.", max_tokens=800)) for _ in range(2)]
        for stream in streams:
            await anext(stream)
        for stream in streams:
            await stream.aclose()
    assert llama.generating == 0
    assert (await collect(llama.stream(ask(max_tokens=2))))[-1].finish_reason == "length"


async def test_cancelling_stops_the_generation(llama: LlamaDialogue) -> None:
    task = asyncio.create_task(collect(llama.stream(ask("Tell a long story.", max_tokens=800))))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert llama.generating == 0


async def test_two_replies_at_once_do_not_mix(llama: LlamaDialogue) -> None:
    alone = [await collect(llama.stream(ask(t, max_tokens=10, seed=3))) for t in ("Dogs", "Rain")]
    both = await asyncio.gather(
        *(collect(llama.stream(ask(t, max_tokens=10, seed=3))) for t in ("Dogs", "Rain"))
    )
    for one, other in zip(alone, both, strict=True):
        assert words(other)[:3] == words(one)[:3]


async def test_a_text_beyond_the_window_is_an_error(llama: LlamaDialogue) -> None:
    for text, max_tokens, numbers in (
        ("word " * 3000, 160, r"needs 3\d{3} tokens beside 160 .* holds 1024"),
        ("a " + "😭" * 1498, 160, r"needs 4\d{3} tokens"),  # three tokens a character
        ("Hello", 1000, r"beside 1000 .* holds 1024"),
    ):
        with pytest.raises(E3RGError, match=numbers) as caught:
            await collect(llama.stream(ask(text, max_tokens=max_tokens)))
        assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "text")
    assert await collect(llama.stream(ask(max_tokens=1)))


async def test_a_history_beyond_the_window_is_cut(llama: LlamaDialogue) -> None:
    talk = [
        Message(role, f"Line {number}: " + "😭" * 30)  # type: ignore[arg-type]
        for number in range(15)
        for role in ("user", "assistant")
    ]
    messages = (Message("system", "You are Ana."), *talk, Message("user", "Hello!"))
    assert llama._count(messages) > 1024
    stream = llama.stream(DialogueRequest(messages, max_tokens=600))
    first = await anext(stream)
    await stream.aclose()
    room = 1024 - 600
    assert room / 2 < first.prompt_tokens <= room  # an exchange less, not all of them


async def test_unchanged_messages_are_read_or_refused(llama: LlamaDialogue) -> None:
    whole = {"max_tokens": None, "temperature": None, "top_p": None, "frequency_penalty": None}
    talk = tuple(Message("user", f"Line {number}: " + "😭" * 40) for number in range(15))
    with pytest.raises(E3RGError, match=r"needs \d+ tokens, but .* holds 1024") as caught:
        await collect(llama.stream(DialogueRequest(talk, truncate=False, **whole)))  # type: ignore[arg-type]
    assert caught.value.code == "context_length_exceeded"
    long = Message("user", "Tell a very long story. " * 165)
    request = DialogueRequest((long,), truncate=False, **whole)  # type: ignore[arg-type]
    last = (await collect(llama.stream(request)))[-1]
    assert last.prompt_tokens + last.completion_tokens <= 1024
    assert last.finish_reason == "length" or last.completion_tokens < 1024 - last.prompt_tokens


def test_the_cheap_bound_is_never_below_the_count(llama: LlamaDialogue) -> None:
    for text in ("a", "😭" * 50, "∰ " * 80, "\x00\x01", "<|im_start|>" * 20, "Z̸͔̈́a̷l" * 30):
        for roles in (("user",), ("system", "user"), ("user", "assistant") * 4 + ("user",)):
            messages = tuple(Message(role, text) for role in roles)  # type: ignore[arg-type]
            tokens = llama._count(messages)
            request = DialogueRequest(messages, max_tokens=1024 - tokens + 1)
            assert not llama._surely_fits(request)


@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
async def test_replies_in_json(engine: DialogueEngine, kind: str) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    wanted: dict[str, Any] = {"type": kind}
    if kind == "json_schema":
        wanted["json_schema"] = {"name": "person", "schema": schema}
    request = ask("A person as JSON: name, age.", max_tokens=80, seed=1, response_format=wanted)
    deltas = await collect(engine.stream(request))
    assert deltas[-1].finish_reason == "stop"
    answer = json.loads("".join(delta.text for delta in deltas))
    assert isinstance(answer, dict)
    if kind == "json_schema":
        assert set(answer) == {"name", "age"} and isinstance(answer["age"], int)


async def test_what_llama_cannot_begin_is_the_callers_fault(llama: LlamaDialogue) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}
    for request, code in (
        (ask(response_format=wanted), "invalid_json_schema"),
        (
            DialogueRequest((Message("assistant", "a"), Message("assistant", "b"))),
            "invalid_messages",
        ),
    ):
        with pytest.raises(E3RGError) as caught:
            await collect(llama.stream(request))
        assert (caught.value.code, caught.value.status) == (code, 400)
    assert llama.generating == 0


def test_tokens_are_counted_as_the_model_does(llama: LlamaDialogue) -> None:
    messages = [Message("system", "You are Ana."), Message("user", "hi " * 2000)]
    answers: list[dict[str, Any]] = []
    wire = [{"role": m.role, "content": m.content} for m in messages]
    llama._server.handle_chat_completions({"messages": wire, "stream": True}, answers.append)
    error = answers[-1]["error"]
    assert llama._count(messages) == error["n_prompt_tokens"]
    failure = _failure(answers[-1], ask())  # should the count ever miss
    assert (failure.code, failure.param) == ("context_length_exceeded", "text")
    assert _failure({"error": {"message": "no context left"}}, ask()).code == "dialogue_failed"


async def test_the_deadline_reaches_the_engine(llama: LlamaDialogue) -> None:
    with pytest.raises(E3RGError) as caught:
        async with bounded(time.time() + 0.2):
            await collect(llama.stream(ask("Tell a long story.", max_tokens=800)))
    assert caught.value.code == "deadline_exceeded"
    assert llama.generating == 0


async def test_a_waiting_reply_is_cancelled_at_once(llama: LlamaDialogue) -> None:
    running = [llama.stream(ask("Tell a long story.", max_tokens=800)) for _ in range(2)]
    for stream in running:
        await anext(stream)
    waiting = asyncio.create_task(collect(llama.stream(ask())))
    await until(lambda: llama.generating == 3)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert llama.generating == 2  # those that run have not ended meanwhile
    for stream in running:
        await stream.aclose()
    assert llama.generating == 0


async def test_a_second_cancellation_leaves_nothing_behind(llama: LlamaDialogue) -> None:
    task = asyncio.create_task(collect(llama.stream(ask("Tell a story.", max_tokens=800))))
    await until(lambda: llama.generating == 1)
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: llama.generating == 0)


async def test_too_many_waiting_replies_are_refused(context: EngineContext) -> None:
    engine = LlamaDialogue.load(context, slots=1, max_waiting=1, context_tokens=1024)
    try:
        running = engine.stream(ask("Tell a long story.", max_tokens=800))
        await anext(running)
        waiting = asyncio.create_task(collect(engine.stream(ask())))
        await until(lambda: engine.generating == 2)
        with pytest.raises(E3RGError) as caught:
            await collect(engine.stream(ask()))
        assert (caught.value.code, caught.value.status) == ("dialogue_busy", 503)
        assert caught.value.retry_after
    finally:
        await asyncio.to_thread(engine.close)  # ends them all, long before their 800 tokens
    for ended in (waiting, asyncio.create_task(collect(running))):
        with pytest.raises(E3RGError) as caught:
            await ended
        assert caught.value.code == "dialogue_unavailable"
    assert engine.generating == 0
    with pytest.raises(E3RGError, match="being stopped"):
        await collect(engine.stream(ask()))
    engine.close()


async def test_memory_and_threads_stay_flat(llama: LlamaDialogue) -> None:
    process = psutil.Process()
    for _ in range(5):
        await collect(llama.stream(ask(max_tokens=4)))
    rss, threads = process.memory_info().rss, process.num_threads()
    for number in range(25):
        await collect(llama.stream(ask(f"Hello number {number}", max_tokens=4)))
    assert process.memory_info().rss < rss * 1.02 + 4e6
    assert process.num_threads() <= threads + 1


async def test_a_dead_server_is_said(context: EngineContext) -> None:
    engine = OpenAIDialogue.load(context, base_url="http://127.0.0.1:9/v1", model="any")
    with pytest.raises(E3RGError) as caught:
        await collect(engine.stream(ask()))
    assert (caught.value.code, caught.value.status) == ("dialogue_unavailable", 503)


def test_a_broken_model_file_is_said(context: EngineContext, tmp_path: Path) -> None:
    source = context.models.path("smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(source.read_bytes()[:1_000_000])
    with pytest.raises(ConfigError, match=r"cut\.gguf"):
        LlamaDialogue.load(context, model=str(cut))
    with pytest.raises(ConfigError, match="does not exist"):
        LlamaDialogue.load(context, model="/nowhere.gguf")
