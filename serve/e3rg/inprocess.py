"""The same stages without Ray: engines in this process, for the command line and for tests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import uvicorn

from e3rg.admission.contracts import Admission
from e3rg.config import Profile, StageConfig
from e3rg.engines import load_engine
from e3rg.gateway.http import build_app
from e3rg.gateway.services import Services
from e3rg.local_context import engine_context
from e3rg.stages.avatar.registry import ENGINES as AVATAR
from e3rg.stages.dialogue.registry import ENGINES as DIALOGUE
from e3rg.stages.memory.registry import ENGINES as MEMORY
from e3rg.stages.speech.registry import ENGINES as SPEECH
from e3rg.stages.understanding.registry import ENGINES as UNDERSTANDING
from e3rg.turn.state import Stages

REGISTRIES = {
    "understanding": UNDERSTANDING,
    "memory": MEMORY,
    "dialogue": DIALOGUE,
    "speech": SPEECH,
    "avatar": AVATAR,
}


@asynccontextmanager
async def local_stages(
    profile: Profile, loaded: Callable[[str], Any] | None = None
) -> AsyncIterator[Stages]:
    """Load a profile's engines; they are closed when the block ends.

    Args:
        profile: names the engines.
        loaded: called with a stage's name when its engine is loaded.
    """
    context = engine_context()
    with ExitStack() as stack:
        engines: dict[str, Any] = {}
        for stage, registry in REGISTRIES.items():
            config: StageConfig = getattr(profile.stages, stage)
            engine = await asyncio.to_thread(
                load_engine, registry, config.engine, context, config.options
            )
            stack.callback(engine.close)
            engines[stage] = engine
            if loaded is not None:
                loaded(stage)
        yield Stages(**engines)


@asynccontextmanager
async def local_server(
    profile: Profile, loaded: Callable[[str], Any] | None = None
) -> AsyncIterator[str]:
    """Serve a profile from this process on a free port of the loopback interface.

    Yields:
        The base address.
    """
    async with local_stages(profile, loaded) as stages, served(profile, stages) as address:
        yield address


@asynccontextmanager
async def served(
    profile: Profile, stages: Stages, admission: Admission | None = None
) -> AsyncIterator[str]:
    """Serve given stages on a free port of the loopback interface."""
    app = build_app(Services.create(profile, stages, admission))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                http="h11",  # bounds the headers, which httptools does not
                log_level="error",
                lifespan="on",
                timeout_graceful_shutdown=5,
            )
        )
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started:
                if running.done():
                    running.result()
                    raise RuntimeError("the server did not start")
                await asyncio.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running
