"""Dialogue on llama.cpp, in process, with continuous batching (https://pypi.org/project/xllamacpp).

Any GGUF chat model: the chat template is the model file's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import xllamacpp

from e3rg.config import ConfigError
from e3rg.engines import EngineContext
from e3rg.errors import E3RGError
from e3rg.priority import in_background_priority
from e3rg.stages.dialogue.engine import DialogueRequest, FinishReason, TextDelta


class LlamaDialogue:
    """A GGUF chat model on this machine's CPU."""

    def __init__(self, server: Any, slots: int, context_tokens: int) -> None:
        self._server = server
        self._context_tokens = context_tokens
        self._executor = ThreadPoolExecutor(slots, thread_name_prefix="llama")
        self._generating = 0

    @classmethod
    def load(
        cls,
        context: EngineContext,
        *,
        model: str = "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        threads: int = 2,
        slots: int = 2,
        context_tokens: int = 2048,
        niceness: int = 10,
    ) -> Self:
        """Load a model.

        Args:
            context: where model files are.
            model: a name in the model store, or an absolute path of a GGUF file.
            threads: CPU threads that read the prompt; one writes.
            slots: replies generated at once.
            context_tokens: window of one reply, prompt included.
            niceness: added to the model's threads; sentences are needed sooner as sound than the
                next ones as text, so on shared cores speech goes first.
        """
        path = Path(model) if Path(model).is_absolute() else context.models.path(model)
        if not path.is_file():
            raise ConfigError(f"dialogue model {path} does not exist")
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = context_tokens * slots
        params.n_parallel = slots
        # Even one thread writes faster than people speak, and leaves a core to speech.
        for pool, count in ((params.cpuparams, 1), (params.cpuparams_batch, threads)):
            pool.n_threads = count
            # Spinning between layers would take the cores from speech and avatar.
            pool.poll = 0
        params.verbosity = -1
        params.cache_ram_mib = 64  # prefixes of idle conversations; the default is 8 GiB
        try:
            server = in_background_priority(lambda: xllamacpp.Server(params), niceness)
        except RuntimeError as error:
            raise ConfigError(f"dialogue model {path} cannot be loaded: {error}") from error
        return cls(server, slots, context_tokens)

    @property
    def address(self) -> str:
        """Base address of llama.cpp's own HTTP server, which listens on the loopback interface."""
        return str(self._server.listening_address)

    @property
    def generating(self) -> int:
        """Replies being generated now."""
        return self._generating

    def close(self) -> None:
        """Release the model."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._server = None

    async def stream(self, request: DialogueRequest) -> AsyncGenerator[TextDelta, None]:
        """Generate a reply; closing the iterator stops the generation within one token.

        Raises:
            E3RGError: ``context_length_exceeded`` (param ``messages``), or ``dialogue_failed``.
        """
        loop = asyncio.get_running_loop()
        # Bounded by max_tokens, which bounds the number of chunks.
        chunks: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        stopped = threading.Event()

        def receive(chunk: dict[str, Any]) -> bool:
            if not stopped.is_set():
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            return stopped.is_set()

        def generate() -> Any:
            try:
                if stopped.is_set():
                    return None
                return self._server.handle_chat_completions(_body(request), receive)
            finally:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(chunks.put_nowait, None)

        running = loop.run_in_executor(self._executor, generate)
        self._generating += 1
        try:
            ended = False
            while (chunk := await chunks.get()) is not None:
                delta = _delta(chunk, self._context_tokens)
                if delta is not None:
                    ended = ended or delta.finish_reason is not None
                    yield delta
            failure = await running
            if not ended:
                raise _failure(failure, self._context_tokens)
        finally:
            stopped.set()
            # The native call ends within a token; until then its slot is not free.
            with contextlib.suppress(Exception):
                await asyncio.wait({running})
            self._generating -= 1


def _body(request: DialogueRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "frequency_penalty": request.frequency_penalty,
        "stream": True,
        "timings_per_token": True,
        # A prompt that is partly cached is computed in other batches, and rounds differently.
        "cache_prompt": request.seed is None,
    }
    if request.seed is not None:
        body["seed"] = request.seed
    if request.stop:
        body["stop"] = list(request.stop)
    return body


def _delta(chunk: dict[str, Any], context_tokens: int) -> TextDelta | None:
    if "choices" not in chunk:
        raise _failure(chunk, context_tokens)
    choice = chunk["choices"][0]
    text = choice["delta"].get("content") or ""
    reason: FinishReason | None = choice.get("finish_reason")
    if reason is None and not text:
        return None
    timings = chunk.get("timings", {})
    return TextDelta(
        text,
        reason,
        prompt_tokens=int(timings.get("prompt_n", 0)) + int(timings.get("cache_n", 0)),
        completion_tokens=int(timings.get("predicted_n", 0)),
    )


def _failure(answer: Any, context_tokens: int) -> E3RGError:
    detail = str(answer.get("error", answer) if isinstance(answer, dict) else answer)
    if "context" in detail:
        return E3RGError(
            "context_length_exceeded",
            f"the conversation does not fit the model's {context_tokens} tokens; send less text",
            param="messages",
        )
    return E3RGError("dialogue_failed", "the language model gave no reply", status=502)
