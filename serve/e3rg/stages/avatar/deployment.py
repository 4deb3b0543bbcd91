"""The avatar stage on Ray Serve."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import cast

from e3rg.attribution import Hop
from e3rg.config import StageConfig
from e3rg.emotions.types import Delivery
from e3rg.identities.types import PortraitRef
from e3rg.media.types import Still
from e3rg.stages.avatar.engine import PortraitReport, RenderRequest, VideoChunk
from e3rg.stages.avatar.registry import ENGINES
from e3rg.stages.deployment import StageClient, StageDeployment


class AvatarDeployment(StageDeployment):
    """Runs an avatar engine."""

    def __init__(self, config: StageConfig) -> None:
        super().__init__(ENGINES, config)

    async def render(self, request: RenderRequest, hop: Hop) -> AsyncGenerator[VideoChunk, None]:
        """See AvatarEngine."""
        async for chunk in self.iterate(self.engine.render(request), hop):
            yield chunk


class AvatarClient(StageClient):
    """AvatarEngine over a handle."""

    def render(self, request: RenderRequest) -> AsyncGenerator[VideoChunk, None]:
        """See AvatarEngine."""
        return self._stream("render", request)

    async def prepare(self, portrait: PortraitRef) -> None:
        """See AvatarEngine."""
        await self._call("prepare", portrait)

    async def still(self, portrait: PortraitRef, delivery: Delivery) -> Still:
        """See AvatarEngine."""
        return cast(Still, await self._call("still", portrait, delivery))

    async def inspect(self, portrait: bytes) -> PortraitReport:
        """See AvatarEngine."""
        return cast(PortraitReport, await self._call("inspect", portrait))
