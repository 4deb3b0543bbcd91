"""Dialogue on llama.cpp, in process, with continuous batching (https://pypi.org/project/xllamacpp).

Any GGUF chat model: the chat template is the model file's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import httpx
import xllamacpp

from e3rg.config import ConfigError
from e3rg.engines import EngineContext
from e3rg.errors import E3RGError
from e3rg.messages import Message
from e3rg.priority import in_background_priority
from e3rg.stages.dialogue.engine import DialogueRequest, FinishReason, TextDelta
from e3rg.stages.dialogue.window import fit, too_long

log = logging.getLogger(__name__)

# Tokens of a prompt that are read at once: a reply can be stopped only after each batch of them, so
# they bound how long an interruption waits for this stage.
_PROMPT_BATCH = 16
# More than a chat template adds to each message, and than it writes by itself.
_MESSAGE_TOKENS, _TEMPLATE_TOKENS = 16, 64
# llama.cpp's own mark for no seed (LLAMA_DEFAULT_SEED in include/llama.h).
_NO_SEED = 2**32 - 1


class LlamaDialogue:
    """A GGUF chat model on this machine's CPU."""

    def __init__(self, server: Any, slots: int, context_tokens: int, max_waiting: int) -> None:
        self._server = server
        self._context_tokens = context_tokens
        self._room = slots + max_waiting
        self._executor = ThreadPoolExecutor(slots, thread_name_prefix="llama")
        # Never through a proxy: it is this process.
        self._native = httpx.Client(base_url=self.address, timeout=10, trust_env=False)
        # One event per reply that runs or waits; it goes when the reply's thread is free again.
        self._stops: set[threading.Event] = set()

    @classmethod
    def load(
        cls,
        context: EngineContext,
        *,
        model: str = "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        threads: int = 2,
        slots: int = 2,
        context_tokens: int = 2048,
        niceness: int = 5,
        max_waiting: int = 8,
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
            max_waiting: replies that may wait for a slot; one more is refused.
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
        params.n_batch = _PROMPT_BATCH
        params.verbosity = -1
        params.cache_ram_mib = 64  # prefixes of idle conversations; the default is 8 GiB
        try:
            server = in_background_priority(lambda: xllamacpp.Server(params), niceness)
        except RuntimeError as error:
            raise ConfigError(f"dialogue model {path} cannot be loaded: {error}") from error
        return cls(server, slots, context_tokens, max_waiting)

    @property
    def address(self) -> str:
        """Base address of llama.cpp's own HTTP server, which listens on the loopback interface."""
        return str(self._server.listening_address)

    @property
    def generating(self) -> int:
        """Replies in work: those being generated, and those that wait for a slot."""
        return len(self._stops)

    def close(self) -> None:
        """Stop all replies and release the model; each of them ends with an error."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for stopped in tuple(self._stops):
            stopped.set()
        self._executor.shutdown(wait=True)
        self._native.close()
        self._server = None

    async def stream(self, request: DialogueRequest) -> AsyncGenerator[TextDelta, None]:
        """Generate a reply; closing the iterator stops the generation within one token,
        or one batch of the prompt.

        Raises:
            E3RGError: ``context_length_exceeded`` (param ``text``), ``invalid_json_schema`` or
                ``invalid_messages``; ``dialogue_busy`` (503), ``dialogue_unavailable`` (503; the
                engine closes) or ``dialogue_failed`` (502).
        """
        if self.generating >= self._room:
            raise E3RGError(
                "dialogue_busy",
                "too many replies wait for the language model; try again shortly",
                status=503,
                retry_after=2,
            )
        loop = asyncio.get_running_loop()
        # Bounded by the window, which bounds the number of chunks.
        chunks: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        stopped = threading.Event()

        def receive(chunk: dict[str, Any]) -> bool:
            if not stopped.is_set():
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            return stopped.is_set()

        def end(_: Future[Any]) -> None:
            self._stops.discard(stopped)
            with contextlib.suppress(RuntimeError):  # the loop is gone, and so is the reader
                loop.call_soon_threadsafe(chunks.put_nowait, None)

        self._stops.add(stopped)
        try:
            running = self._executor.submit(self._generate, request, receive, stopped)
        except RuntimeError as error:  # closed
            self._stops.discard(stopped)
            raise _closed() from error
        # Called also for a future that is cancelled before it starts.
        running.add_done_callback(end)
        try:
            ended = False
            while (chunk := await chunks.get()) is not None:
                delta = _delta(chunk, request)
                if delta is not None:
                    ended = ended or delta.finish_reason is not None
                    yield delta
            if ended:
                return
            if running.cancelled() or stopped.is_set():
                raise _closed()
            try:
                answer = running.result()
            except (TypeError, ValueError) as error:
                raise _refused(error, request) from error
            raise _failure(answer, request)
        finally:
            stopped.set()
            if not running.cancel() and not running.done():
                # The native call ends within a token; until then its slot is not free.
                await asyncio.gather(asyncio.wrap_future(running), return_exceptions=True)

    def _generate(self, request: DialogueRequest, receive: Any, stopped: threading.Event) -> Any:
        if stopped.is_set():
            return None
        messages = request.messages
        if request.truncate and not self._surely_fits(request):
            room = request.max_tokens or 0
            messages = fit(messages, room, self._context_tokens, self._count)
            if stopped.is_set():
                return None
        return self._server.handle_chat_completions(_body(request, messages), receive)

    def _surely_fits(self, request: DialogueRequest) -> bool:
        """Whether the prompt fits even at a token for each byte, which spares counting them."""
        most = _TEMPLATE_TOKENS + (request.max_tokens or 0)
        for message in request.messages:
            most += _MESSAGE_TOKENS + len(message.content.encode("utf-8", "replace"))
        return most <= self._context_tokens

    def _count(self, messages: Sequence[Message]) -> int:
        """Tokens of a prompt, counted by llama.cpp (tools/server/README.md, /apply-template)."""
        try:
            rendered = self._post("/apply-template", {"messages": _wire(messages)})
            prompt = {"content": rendered["prompt"], "add_special": True, "parse_special": True}
            return len(self._post("/tokenize", prompt)["tokens"])
        except httpx.HTTPError as error:
            raise _failed() from error

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return self._native.post(path, json=body).raise_for_status().json()


def _wire(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": m.role, "content": m.content} for m in messages]


def _body(request: DialogueRequest, messages: Sequence[Message]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "messages": _wire(messages),
        "stream": True,
        "timings_per_token": True,
        # A chunk after each batch of the prompt: else only a token can be stopped at.
        "return_progress": True,
        # A prompt that is partly cached is computed in other batches, and rounds differently.
        "cache_prompt": request.seed is None,
        **request.options(),
    }
    if request.seed is not None:
        body["seed"] = request.seed % _NO_SEED
    if request.stop:
        body["stop"] = list(request.stop)
    return body


def _delta(chunk: dict[str, Any], request: DialogueRequest) -> TextDelta | None:
    if "choices" not in chunk:
        raise _failure(chunk, request)
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


def _failure(answer: Any, request: DialogueRequest) -> E3RGError:
    """The error for llama.cpp's ``{"error": {"type", "message", ...}}``, or for no answer."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict) and error.get("type") == "exceed_context_size_error":
        beside = request.max_tokens if request.truncate else None
        return too_long(error["n_prompt_tokens"], beside, error["n_ctx"])
    log.error("llama.cpp gave no reply: %s", error or answer)
    return _failed()


def _refused(error: Exception, request: DialogueRequest) -> E3RGError:
    """The error for a request that llama.cpp does not begin with."""
    if request.response_format is not None:
        return E3RGError(
            "invalid_json_schema",
            "the language model cannot follow this JSON schema; use a simpler one",
            param="response_format",
        )
    log.warning("llama.cpp refused a request: %s", error)
    return E3RGError(
        "invalid_messages",
        "the model's chat template does not take these messages; let the user's and the "
        "assistant's alternate, the user's last",
        param="messages",
    )


def _failed() -> E3RGError:
    return E3RGError("dialogue_failed", "the language model gave no reply", status=502)


def _closed() -> E3RGError:
    return E3RGError(
        "dialogue_unavailable",
        "the language model is being stopped; try again shortly",
        status=503,
        retry_after=5,
    )
