import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from e3rg.stages.dialogue.coalesce import coalesce
from e3rg.stages.dialogue.engine import TextDelta


async def deltas(texts: list[str], wait: float = 0.0) -> AsyncGenerator[TextDelta, None]:
    for text in texts:
        await asyncio.sleep(wait)
        yield TextDelta(text)
    yield TextDelta("", "stop", 7, len(texts))


async def test_first_leaves_alone_and_the_rest_is_grouped() -> None:
    got = [delta async for delta in coalesce(deltas(list("abcdef")), window=0.05)]
    assert [delta.text for delta in got] == ["a", "bcdef"]
    assert (got[-1].finish_reason, got[-1].completion_tokens) == ("stop", 6)


async def test_a_delta_does_not_wait_for_the_next_one() -> None:
    received = asyncio.Event()

    async def halting() -> AsyncGenerator[TextDelta, None]:
        yield TextDelta("a")
        yield TextDelta("b")
        await received.wait()  # nothing more comes until b has arrived
        yield TextDelta("c", "stop")

    stream = coalesce(halting(), window=0.01)
    assert (await anext(stream)).text == "a"
    assert (await anext(stream)).text == "b"
    received.set()
    assert (await anext(stream)).text == "c"


async def test_closing_it_closes_the_source() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[TextDelta, None]:
        try:
            while True:
                await asyncio.sleep(0.01)
                yield TextDelta("x")
        finally:
            closed.set()

    stream = coalesce(endless())
    await anext(stream)
    await stream.aclose()
    assert closed.is_set()


@pytest.mark.parametrize("cancellations", [1, 2, 3])
@pytest.mark.parametrize("given", [0, 1, 2])  # deltas before the source falls silent
async def test_cancelling_its_consumer_closes_the_source(given: int, cancellations: int) -> None:
    closed = asyncio.Event()

    async def silent() -> AsyncGenerator[TextDelta, None]:
        try:
            for _ in range(given):
                yield TextDelta("x")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)  # an engine waits for its slot
            closed.set()

    async def consume() -> None:
        async with aclosing(coalesce(silent(), window=10)) as stream:
            async for _ in stream:
                pass

    consumer = asyncio.create_task(consume())
    await asyncio.sleep(0.01)
    for _ in range(cancellations):
        consumer.cancel()
        await asyncio.sleep(0.002)
    with pytest.raises(asyncio.CancelledError):
        await consumer
    assert closed.is_set()


async def test_failures_pass() -> None:
    async def broken() -> AsyncGenerator[TextDelta, None]:
        yield TextDelta("a")
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        _ = [delta async for delta in coalesce(broken())]
