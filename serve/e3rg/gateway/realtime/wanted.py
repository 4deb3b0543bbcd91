"""How a response shall be: as ``response.create`` says, or else as its session is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from e3rg.gateway.bodies import voice_name
from e3rg.gateway.realtime.config import Format, ResponseParams, Settings


@dataclass(frozen=True, slots=True)
class Wanted:
    """A response's own parameters over its session's settings."""

    settings: Settings
    params: ResponseParams

    @property
    def spoken(self) -> bool:
        """Whether the reply is sound with a transcript, or text."""
        return (self.params.output_modalities or self.settings.output_modalities) == ["audio"]

    @property
    def format(self) -> Format:
        """Of the reply's sound."""
        return self.params.audio.output.format or self.settings.audio.output.format

    @property
    def voice(self) -> str | None:
        """Name of the voice; None for the listener's own."""
        return voice_name(self.params.audio.output.voice or self.settings.audio.output.voice)

    @property
    def max_output_tokens(self) -> int | Literal["inf"]:
        """Bound of the reply."""
        return self.params.max_output_tokens or self.settings.max_output_tokens

    @property
    def instructions(self) -> str:
        """What the application asks of the listener."""
        own = self.params.instructions
        return self.settings.instructions if own is None else own
