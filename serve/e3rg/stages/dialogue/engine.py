"""Dialogue: a language model that streams a reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal, Protocol

from e3rg.messages import Message

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class DialogueRequest:
    """A request to a chat model; the fields mean what they mean in OpenAI's API.

    With a seed, the same request gives the same reply wherever the engine can promise it, at the
    price of what it could have reused of earlier requests.
    """

    messages: tuple[Message, ...]
    max_tokens: int = 160
    temperature: float = 0.7
    top_p: float = 0.9
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the reply; the last one has a finish reason and the token counts."""

    text: str
    finish_reason: FinishReason | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


class DialogueEngine(Protocol):
    """A streaming chat model."""

    def stream(self, request: DialogueRequest) -> AsyncGenerator[TextDelta, None]:
        """Generate a reply. Closing the iterator stops the generation within one token."""
        ...
