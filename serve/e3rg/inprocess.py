"""The same stages without Ray: engines in this process, for the command line and for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from e3rg.config import Profile, StageConfig
from e3rg.engines import load_engine
from e3rg.local_context import engine_context
from e3rg.stages.avatar.registry import ENGINES as AVATAR
from e3rg.stages.dialogue.registry import ENGINES as DIALOGUE
from e3rg.stages.memory.registry import ENGINES as MEMORY
from e3rg.stages.speech.registry import ENGINES as SPEECH
from e3rg.stages.understanding.registry import ENGINES as UNDERSTANDING
from e3rg.turn.conductor import Stages

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
