"""Dialogue on any OpenAI-compatible server (https://platform.openai.com/docs/api-reference/chat)."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator
from typing import Self

import httpx
import openai
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionStreamOptionsParam

from e3rg import deadline
from e3rg.config import ConfigError
from e3rg.engines import EngineContext
from e3rg.errors import E3RGError
from e3rg.messages import Message
from e3rg.stages.dialogue.engine import DialogueRequest, FinishReason, TextDelta

log = logging.getLogger(__name__)

# How OpenAI and vLLM, and llama.cpp, say that a prompt is too long: by code, and by type.
_TOO_LONG = {"context_length_exceeded", "exceed_context_size_error"}


class OpenAIDialogue:
    """A remote chat model, through the official client."""

    def __init__(
        self, client: openai.AsyncOpenAI, model: str, timeout_s: float, continuous_usage: bool
    ) -> None:
        self._client = client
        self._model = model
        self._timeout_s = timeout_s
        self._stream_options: ChatCompletionStreamOptionsParam = {"include_usage": True}
        if continuous_usage:
            self._stream_options["continuous_usage_stats"] = True  # type: ignore[typeddict-unknown-key]

    @classmethod
    def load(
        cls,
        context: EngineContext,
        *,
        base_url: str,
        model: str,
        api_key_env: str = "OPENAI_API_KEY",
        timeout_s: float = 60,
        continuous_usage: bool = False,
    ) -> Self:
        """Connect to a server.

        Args:
            context: not used.
            base_url: e.g. ``http://host:8000/v1``.
            model: the model's name on that server.
            api_key_env: environment variable that holds the key; a profile holds no secrets.
            timeout_s: longest wait for the next piece of a reply; a server that sends nothing at
                all is asked once more.
            continuous_usage: ask for exact token counts with each piece (vLLM's
                ``continuous_usage_stats``); other servers may refuse the field.
        """
        if not base_url.startswith(("http://", "https://")):
            raise ConfigError(f"dialogue base_url {base_url!r} must start with http:// or https://")
        key = os.environ.get(api_key_env, "none")
        client = openai.AsyncOpenAI(
            base_url=base_url, api_key=key, timeout=timeout_s, max_retries=1
        )
        return cls(client, model, timeout_s, continuous_usage)

    def close(self) -> None:
        """Nothing is held between calls but pooled connections, which end with the process."""

    async def stream(self, request: DialogueRequest) -> AsyncGenerator[TextDelta, None]:
        """Generate a reply; closing the iterator closes the connection, which stops the server.

        Raises:
            E3RGError: ``context_length_exceeded``, ``dialogue_unavailable`` (503) or
                ``dialogue_failed`` (502).
        """
        options = request.options()
        if request.seed is not None:
            options["seed"] = request.seed
        if request.stop:
            options["stop"] = list(request.stop)
        if (remaining := deadline.remaining()) is not None:
            options["timeout"] = min(self._timeout_s, remaining)
        try:
            stream = await self._client.chat.completions.create(
                model=self._model,
                messages=[_param(message) for message in request.messages],
                stream=True,
                stream_options=self._stream_options,
                **options,
            )
            async with stream:
                reason: FinishReason = "stop"
                prompt_tokens = completion_tokens = 0
                async for chunk in stream:
                    if chunk.usage is not None and chunk.usage.completion_tokens:
                        prompt_tokens = chunk.usage.prompt_tokens
                        completion_tokens = chunk.usage.completion_tokens
                    elif any(choice.delta.content for choice in chunk.choices):
                        completion_tokens += (
                            1  # until the usage comes, which a cut reply never sees
                        )
                    for choice in chunk.choices:
                        if choice.finish_reason == "length":
                            reason = "length"
                        if choice.delta.content:
                            yield TextDelta(
                                choice.delta.content, None, prompt_tokens, completion_tokens
                            )
            yield TextDelta("", reason, prompt_tokens, completion_tokens)
        except (
            openai.APIConnectionError,
            openai.InternalServerError,
            openai.RateLimitError,
            httpx.TransportError,  # in the middle of a reply
        ) as error:
            log.warning("the language model's server failed: %r", error)
            raise E3RGError(
                "dialogue_unavailable",
                "the language model's server does not answer; try again shortly",
                status=503,
                retry_after=5,
            ) from error
        except openai.APIError as error:
            if {error.code, error.type} & _TOO_LONG:
                raise E3RGError(
                    "context_length_exceeded",
                    "the messages do not fit into the model's window; send fewer or shorter ones",
                    param="messages",
                ) from error
            # The server's words may hold keys, names and addresses: not for the speaker's eyes.
            log.error("the language model's server refused: %s", error.message)
            raise E3RGError(
                "dialogue_failed",
                "the language model's server refused the request; this service's log says why",
                status=502,
            ) from error


def _param(message: Message) -> ChatCompletionMessageParam:
    match message.role:
        case "system":
            return {"role": "system", "content": message.content}
        case "user":
            return {"role": "user", "content": message.content}
        case "assistant":
            return {"role": "assistant", "content": message.content}
