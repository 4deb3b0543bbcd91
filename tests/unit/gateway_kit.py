"""The gateway over scripted stages, for tests that speak HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from scripted import Script

from e3rg.admission.contracts import Admission
from e3rg.config import Profile, load_profile
from e3rg.inprocess import served

TURN = {"text": "I lost my dog.", "conversation": "chat"}


@asynccontextmanager
async def gateway(
    script: Script, profile: Profile | None = None, admission: Admission | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server in this process; E3RG_DATA must point to a folder of the test."""
    profile = profile or load_profile("local")
    async with (
        served(profile, script.stages(), admission) as address,
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        yield client


async def streamed(client: httpx.AsyncClient, **request: Any) -> list[tuple[str, Any]]:
    """The events of a streamed turn."""
    seen: list[tuple[str, Any]] = []
    async with client.stream("POST", "/v1/turns", **request) as response:
        assert response.status_code == 200, await response.aread()
        name = ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                seen.append((name, json.loads(line.removeprefix("data: "))))
    return seen
