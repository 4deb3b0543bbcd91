"""The remote engine against small servers that do one thing wrong."""

import asyncio
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from e3rg.deadline import bounded
from e3rg.errors import E3RGError
from e3rg.local_context import engine_context
from e3rg.messages import Message
from e3rg.stages.dialogue.engine import DialogueRequest, TextDelta
from e3rg.stages.dialogue.openai import OpenAIDialogue

REQUEST = DialogueRequest((Message("user", "Hello"),))
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def remote(
    answer: Answer, bodies: list[bytes], **options: float
) -> AsyncIterator[OpenAIDialogue]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        bodies.append(await reader.readexactly(length))
        await answer(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    engine = OpenAIDialogue.load(
        engine_context(),
        base_url=f"http://127.0.0.1:{port}/v1",
        model="any",
        **options,  # type: ignore[arg-type]
    )
    try:
        yield engine
    finally:
        server.close()


def event(text: str | None, usage: int | None = None) -> bytes:
    chunk = {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "any",
        "choices": [{"index": 0, "delta": {"content": text}}] if text is not None else [],
        "usage": usage
        and {"prompt_tokens": 9, "completion_tokens": usage, "total_tokens": 9 + usage},
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


async def test_a_refusal_keeps_the_servers_words_back(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(writer: asyncio.StreamWriter) -> None:
        body = b'{"error": {"message": "Incorrect API key provided: sk-secret"}}'
        writer.write(
            b"HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )

    async with remote(refuse, []) as engine:
        with pytest.raises(E3RGError) as caught:
            await anext(engine.stream(REQUEST))
    assert (caught.value.code, caught.value.status) == ("dialogue_failed", 502)
    assert "sk-" not in caught.value.message
    assert "Incorrect API key" in caplog.text


@pytest.mark.parametrize(
    "error", ['"code": "context_length_exceeded"', '"type": "exceed_context_size_error"']
)
async def test_a_prompt_that_is_too_long_is_the_callers_fault(error: str) -> None:
    async def refuse(writer: asyncio.StreamWriter) -> None:
        body = b'{"error": {"message": "too long", %s}}' % error.encode()
        writer.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )

    async with remote(refuse, []) as engine:
        with pytest.raises(E3RGError) as caught:
            await anext(engine.stream(REQUEST))
    assert (caught.value.code, caught.value.status) == ("context_length_exceeded", 400)


async def test_only_what_is_chosen_is_sent() -> None:
    async def speak(writer: asyncio.StreamWriter) -> None:
        writer.write(OK + event("Hi") + event(None, 1) + b"data: [DONE]\n\n")

    bodies: list[bytes] = []
    engines_own = dataclasses.replace(
        REQUEST, max_tokens=None, temperature=None, top_p=None, frequency_penalty=None
    )
    async with remote(speak, bodies) as engine:
        assert [delta async for delta in engine.stream(engines_own)]
    assert set(json.loads(bodies[0])) == {"model", "messages", "stream", "stream_options"}


async def test_the_next_piece_has_its_own_time_limit() -> None:
    async def stall(writer: asyncio.StreamWriter) -> None:
        writer.write(OK + event("Hi"))
        await asyncio.sleep(5)

    async with remote(stall, [], timeout_s=0.2) as engine, bounded(time.time() + 60):
        stream = engine.stream(REQUEST)
        assert (await anext(stream)).text == "Hi"
        with pytest.raises(E3RGError) as caught:
            await asyncio.wait_for(anext(stream), 4)
    assert (caught.value.code, caught.value.status) == ("dialogue_unavailable", 503)


@pytest.mark.parametrize("continuous", [False, True])
async def test_tokens_are_counted_as_they_come(continuous: bool) -> None:
    async def speak(writer: asyncio.StreamWriter) -> None:
        pieces = [event(text, 2 * n if continuous else None) for n, text in enumerate("abc", 1)]
        writer.write(OK + b"".join(pieces) + event(None, 6) + b"data: [DONE]\n\n")

    bodies: list[bytes] = []
    async with remote(speak, bodies, continuous_usage=continuous) as engine:
        deltas: list[TextDelta] = [delta async for delta in engine.stream(REQUEST)]
    counts = [delta.completion_tokens for delta in deltas]
    assert counts == ([2, 4, 6, 6] if continuous else [1, 2, 3, 6])
    assert deltas[-1].prompt_tokens == 9
    # A strict server refuses a field that it does not know.
    assert (b"continuous_usage_stats" in bodies[0]) == continuous
