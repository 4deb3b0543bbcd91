"""Dialogue: a language model that streams a reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from e3rg.messages import Message

FinishReason = Literal["stop", "length"]

_OPTIONS = (
    "max_tokens",
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "response_format",
)


@dataclass(frozen=True, slots=True)
class DialogueRequest:
    """A request to a chat model; the fields mean what they mean in OpenAI's API.

    Attributes:
        messages: the conversation, oldest first.
        max_tokens: bound of the reply; None for whatever the window leaves.
        temperature: of the sampling; None, here and below, for the engine's own default.
        top_p: of the sampling.
        frequency_penalty: of the sampling.
        presence_penalty: of the sampling.
        seed: the same request gives the same reply wherever the engine can promise it, at the
            price of what it could have reused of earlier requests.
        stop: the reply ends before any of these.
        response_format: OpenAI's ``{"type": "json_object"}`` or ``{"type": "json_schema", ...}``;
            None for free text.
        truncate: leave out the oldest exchanges of a conversation that is too long; otherwise the
            messages are read unchanged or refused, and a reply that fills the window ends there.
    """

    messages: tuple[Message, ...]
    max_tokens: int | None = 160
    temperature: float | None = 0.3
    top_p: float | None = 0.8
    frequency_penalty: float | None = 0.4
    presence_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    response_format: dict[str, Any] | None = None
    truncate: bool = True

    def options(self) -> dict[str, Any]:
        """What is set of the sampling, the bound and the format, by OpenAI's names."""
        return {name: value for name in _OPTIONS if (value := getattr(self, name)) is not None}


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
