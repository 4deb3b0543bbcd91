"""The understanding stage on Ray Serve."""

from __future__ import annotations

from typing import cast

from e3rg.config import StageConfig
from e3rg.emotions.types import Emotion
from e3rg.media.types import Pcm
from e3rg.stages.deployment import StageClient, StageDeployment
from e3rg.stages.understanding.engine import Transcript, Utterance
from e3rg.stages.understanding.registry import ENGINES


class UnderstandingDeployment(StageDeployment):
    """Runs an understanding engine."""

    def __init__(self, config: StageConfig) -> None:
        super().__init__(ENGINES, config)


class UnderstandingClient(StageClient):
    """UnderstandingEngine over a handle."""

    async def transcribe(self, audio: Pcm) -> Transcript:
        """See UnderstandingEngine."""
        return cast(Transcript, await self._call("transcribe", audio))

    async def recognize(self, utterance: Utterance) -> Emotion:
        """See UnderstandingEngine."""
        return cast(Emotion, await self._call("recognize", utterance))
