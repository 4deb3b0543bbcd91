"""Chat completions of the dialogue stage's own model: the messages reach it unchanged."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from e3rg.deadline import bounded
from e3rg.errors import E3RGError
from e3rg.gateway.bodies import unsupported
from e3rg.gateway.estimates import chat_estimate
from e3rg.gateway.protocols.openai.chat_body import (
    AssistantMessage,
    ChatBody,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    text_of,
)
from e3rg.gateway.protocols.openai.chat_format import wanted_format
from e3rg.gateway.protocols.openai.chat_wire import Chunks, completion, started, usage_json
from e3rg.gateway.services import Services
from e3rg.gateway.streaming import until_gone
from e3rg.gateway.time_limit import due
from e3rg.messages import Message
from e3rg.stages.dialogue.engine import DialogueRequest, TextDelta
from e3rg.telemetry import metrics

_MAX_TOKENS = 1_000_000
_LISTENER = "this model writes only; use the model e3rg, which sees, hears and speaks"


async def answer(request: Request, services: Services, model: str, body: ChatBody) -> Response:
    """Ask the model.

    Args:
        request: the client's.
        services: the gateway's parts.
        model: its true name.
        body: what is asked.

    Raises:
        E3RGError: ``unsupported_parameter``, ``invalid_json_schema``; those of DialogueEngine, of
            which ``context_length_exceeded`` names ``messages``.
    """
    asked = _asked(body)
    if body.stream:
        chunks = Chunks(model, body.include_usage)
        return await started(request, _stream(services, chunks, asked))
    return JSONResponse(await until_gone(request.receive, _whole(services, model, asked)))


def _asked(body: ChatBody) -> DialogueRequest:
    if body.e3rg is not None:
        raise unsupported("e3rg", "it is for listeners, such as the model e3rg; leave it out")
    if "audio" in (body.modalities or ()):
        raise unsupported("modalities", _LISTENER)
    return DialogueRequest(
        tuple(_message(message, number) for number, message in enumerate(body.messages)),
        max_tokens=min(body.reply_tokens, _MAX_TOKENS) if body.reply_tokens else None,
        temperature=body.temperature,
        top_p=body.top_p,
        frequency_penalty=body.frequency_penalty,
        presence_penalty=body.presence_penalty,
        seed=body.seed,
        stop=body.stops,
        response_format=wanted_format(body.response_format),
        truncate=False,
    )


def _message(message: object, number: int) -> Message:
    assert not isinstance(message, ToolMessage)
    content = getattr(message, "content", None)
    if isinstance(content, list) and not all(
        isinstance(part, TextPart | RefusalPart) for part in content
    ):
        raise unsupported(f"messages.{number}.content", _LISTENER)
    if isinstance(message, AssistantMessage) and message.audio is not None:
        raise unsupported(f"messages.{number}.audio", _LISTENER)
    if isinstance(message, SystemMessage):
        return Message("system", text_of(content))
    return Message(
        "assistant" if isinstance(message, AssistantMessage) else "user", text_of(content)
    )


async def _deltas(services: Services, asked: DialogueRequest) -> AsyncGenerator[TextDelta, None]:
    deadline = due(services.profile.turn)
    last = TextDelta("")
    with services.calls.take() as place:
        await services.admitter.call(
            place, "dialogue", chat_estimate(asked, services.profile.turn.max_reply_tokens)
        )
        try:
            async with aclosing(services.stages.dialogue.stream(asked)) as source:
                while True:
                    # A deadline is kept in a context variable, which must not cross a yield.
                    async with bounded(deadline):
                        try:
                            last = await anext(source)
                        except StopAsyncIteration:
                            return
                    yield last
        except E3RGError as error:
            if error.code == "context_length_exceeded":
                error.param = "messages"
            raise
        finally:
            metrics.TOKENS.labels("prompt").inc(last.prompt_tokens)
            metrics.TOKENS.labels("completion").inc(last.completion_tokens)


async def _stream(
    services: Services, chunks: Chunks, asked: DialogueRequest
) -> AsyncGenerator[bytes, None]:
    part = chunks.delta({"role": "assistant", "content": "", "refusal": None})
    last = TextDelta("", "stop")
    async with aclosing(_deltas(services, asked)) as deltas:
        async for last in deltas:
            if last.text:
                yield part + chunks.text(last.text)
                part = b""
    yield part + chunks.end(
        last.finish_reason or "stop", usage_json(last.prompt_tokens, last.completion_tokens)
    )


async def _whole(services: Services, model: str, asked: DialogueRequest) -> dict[str, object]:
    words: list[str] = []
    last = TextDelta("", "stop")
    async with aclosing(_deltas(services, asked)) as deltas:
        async for last in deltas:
            words.append(last.text)
    return completion(
        model,
        {"role": "assistant", "content": "".join(words), "refusal": None, "annotations": []},
        last.finish_reason or "stop",
        usage_json(last.prompt_tokens, last.completion_tokens),
    )
