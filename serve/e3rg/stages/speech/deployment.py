"""The speech stage on Ray Serve."""

from __future__ import annotations

from typing import cast

from e3rg.config import StageConfig
from e3rg.stages.deployment import StageClient, StageDeployment
from e3rg.stages.speech.engine import SpeechRequest, SpeechSegment, VoiceInfo
from e3rg.stages.speech.registry import ENGINES


class SpeechDeployment(StageDeployment):
    """Runs a speech engine."""

    def __init__(self, config: StageConfig) -> None:
        super().__init__(ENGINES, config)


class SpeechClient(StageClient):
    """SpeechEngine over a handle."""

    async def synthesize(self, request: SpeechRequest) -> SpeechSegment:
        """See SpeechEngine."""
        return cast(SpeechSegment, await self._call("synthesize", request))

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """See SpeechEngine."""
        return cast(tuple[VoiceInfo, ...], await self._call("voices"))
