"""The understanding stage on Ray Serve."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import cast

from e3rg.attribution import Hop
from e3rg.config import StageConfig
from e3rg.emotions.types import Emotion
from e3rg.media.types import Pcm
from e3rg.stages.deployment import StageClient, StageDeployment
from e3rg.stages.understanding.engine import (
    HeardSegment,
    ListenRequest,
    Transcript,
    Utterance,
)
from e3rg.stages.understanding.registry import ENGINES


class UnderstandingDeployment(StageDeployment):
    """Runs an understanding engine."""

    def __init__(self, config: StageConfig) -> None:
        super().__init__(ENGINES, config)

    async def listen(self, request: ListenRequest, hop: Hop) -> AsyncGenerator[HeardSegment, None]:
        """See UnderstandingEngine."""
        async for segment in self.iterate(self.engine.listen(request), hop):
            yield segment


class UnderstandingClient(StageClient):
    """UnderstandingEngine over a handle."""

    async def transcribe(self, audio: Pcm) -> Transcript:
        """See UnderstandingEngine."""
        return cast(Transcript, await self._call("transcribe", audio))

    def listen(self, request: ListenRequest) -> AsyncGenerator[HeardSegment, None]:
        """See UnderstandingEngine."""
        return self._stream("listen", request)

    async def recognize(self, utterance: Utterance) -> Emotion:
        """See UnderstandingEngine."""
        return cast(Emotion, await self._call("recognize", utterance))
