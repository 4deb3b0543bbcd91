"""The official client against stages in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from scripted import Script

from e3rg.config import load_profile
from e3rg.inprocess import served
from e3rg.turn.state import Stages

LISTENER = "e3rg"
BARE = "smollm2-135m-instruct"


@asynccontextmanager
async def client_of(
    stages: Stages, data: Path, monkeypatch: pytest.MonkeyPatch, **gateway: Any
) -> AsyncIterator[openai.AsyncOpenAI]:
    """A client of a server over stages; it never tries twice."""
    monkeypatch.setenv("E3RG_DATA", str(data))
    profile = load_profile("local")
    profile = profile.model_copy(update={"gateway": profile.gateway.model_copy(update=gateway)})
    async with (
        served(profile, stages) as address,
        openai.AsyncOpenAI(
            base_url=f"{address}/v1", api_key="x", max_retries=0, timeout=60
        ) as client,
    ):
        yield client


def said(text: str = "I lost my dog.") -> list[Any]:
    """One message of the user."""
    return [{"role": "user", "content": text}]


async def refuses_when_full(
    script: Script, stage: str, call: Callable[[], Awaitable[Any]], places: int
) -> list[Any]:
    """One more call than there are places is told so with 503; what the others answer."""
    script.hold[stage] = asyncio.Event()
    running = [asyncio.ensure_future(call()) for _ in range(places)]
    await script.until_working(stage, places)
    with pytest.raises(openai.InternalServerError, match="places are taken"):
        await call()
    script.hold[stage].set()
    return await asyncio.gather(*running)


async def at_rest(script: Script, call: Callable[[], Awaitable[Any]], places: int) -> None:
    """Nothing works, and every place can be taken again."""
    await script.until_idle()
    script.hold.clear()
    await asyncio.gather(*(call() for _ in range(places)))
