"""The memory stage on Ray Serve."""

from __future__ import annotations

from typing import cast

from e3rg.config import StageConfig
from e3rg.stages.deployment import StageClient, StageDeployment
from e3rg.stages.memory.engine import Embeddings, Episode, MemoryQuery, Retrieval
from e3rg.stages.memory.registry import ENGINES
from e3rg.tenancy import LOCAL


class MemoryDeployment(StageDeployment):
    """Runs a memory engine."""

    def __init__(self, config: StageConfig) -> None:
        super().__init__(ENGINES, config)


class MemoryClient(StageClient):
    """MemoryEngine over a handle."""

    async def retrieve(self, query: MemoryQuery) -> Retrieval:
        """See MemoryEngine."""
        return cast(Retrieval, await self._call("retrieve", query))

    async def remember(self, episode: Episode) -> None:
        """See MemoryEngine."""
        await self._call("remember", episode)

    async def embed(self, texts: tuple[str, ...]) -> Embeddings:
        """See MemoryEngine."""
        return cast(Embeddings, await self._call("embed", texts))

    async def forget(self, user: str, tenant: str = LOCAL) -> int:
        """See MemoryEngine."""
        return cast(int, await self._call("forget", user, tenant))
