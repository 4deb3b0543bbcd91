"""The dialogue stage on Ray Serve."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from e3rg.attribution import Hop
from e3rg.config import StageConfig
from e3rg.stages.deployment import StageClient, StageDeployment
from e3rg.stages.dialogue.coalesce import coalesce
from e3rg.stages.dialogue.engine import DialogueRequest, TextDelta
from e3rg.stages.dialogue.registry import ENGINES


class DialogueDeployment(StageDeployment):
    """Runs a dialogue engine."""

    def __init__(self, config: StageConfig) -> None:
        super().__init__(ENGINES, config)

    async def stream(self, request: DialogueRequest, hop: Hop) -> AsyncGenerator[TextDelta, None]:
        """See DialogueEngine."""
        async for delta in self.iterate(coalesce(self.engine.stream(request)), hop):
            yield delta


class DialogueClient(StageClient):
    """DialogueEngine over a handle."""

    def stream(self, request: DialogueRequest) -> AsyncGenerator[TextDelta, None]:
        """See DialogueEngine."""
        return self._stream("stream", request)
