"""Dialogue: a language model that streams a reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from e3rg.messages import Message

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class DialogueRequest:
    """A request to a chat model; the fields mean what they mean in OpenAI's API.

    With a seed, the same request gives the same reply wherever the engine can promise it, at the
    price of what it could have reused of earlier requests. ``response_format`` is OpenAI's
    ``{"type": "json_object"}`` or ``{"type": "json_schema", ...}``; None for free text.
    """

    messages: tuple[Message, ...]
    max_tokens: int = 160
    temperature: float = 0.3
    top_p: float = 0.8
    frequency_penalty: float = 0.4
    presence_penalty: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    response_format: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the reply; the last one has a finish reason.

    Attributes:
        text: what comes next.
        finish_reason: why the reply ended; None before.
        prompt_tokens: tokens of the prompt; 0 while the engine does not know.
        completion_tokens: tokens generated so far: a reply that is cut short is counted, too. An
            engine that learns its counts only at the end counts pieces before.
    """

    text: str
    finish_reason: FinishReason | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


class DialogueEngine(Protocol):
    """A streaming chat model."""

    def stream(self, request: DialogueRequest) -> AsyncGenerator[TextDelta, None]:
        """Generate a reply. Closing the iterator stops the generation within one token."""
        ...
