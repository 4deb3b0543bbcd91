"""/v1/chat/completions: a listener's whole turn, or the dialogue stage's own model.

The bytes are OpenAI's (https://platform.openai.com/docs/api-reference/chat).
"""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from e3rg.deadline import bounded
from e3rg.errors import E3RGError
from e3rg.gateway.bodies import parse
from e3rg.gateway.catalog import Model
from e3rg.gateway.openapi import fails, gives, takes
from e3rg.gateway.protocols.openai import chat_bare, chat_reply
from e3rg.gateway.protocols.openai.chat_body import (
    AudioOut,
    ChatBody,
    refuse_unsupported,
    text_of,
)
from e3rg.gateway.protocols.openai.chat_listener import AUDIO_S, read_turn
from e3rg.gateway.protocols.openai.chat_wire import Chunks, started
from e3rg.gateway.services import Services
from e3rg.gateway.streaming import until_gone
from e3rg.gateway.time_limit import due
from e3rg.gateway.uploads import read_fields
from e3rg.turn.request import TurnRequest

_MAX_BODY_BYTES = 16_000_000
"""A picture and two minutes of WAV in base64."""

_MAX_CHARS = 1_000_000

_ANSWER = """\
The answer. With `stream`, server-sent events without names, `[DONE]` at the end; a failure in their
midst is an event with `error`. A listener's answer, or its last chunk, has `e3rg`: the turn's id,
the emotion, what memory was used, where the reply is less than was asked for, and timings."""


def router(services: Services) -> APIRouter:
    """Make the routes."""
    routes = APIRouter()

    @routes.post(
        "/v1/chat/completions",
        response_class=Response,
        openapi_extra=takes(json=ChatBody),
        responses={
            **gives(ChatCompletion, events={"": ChatCompletionChunk}, description=_ANSWER),
            **fails(404),
        },
    )
    async def create_chat_completion(request: Request) -> Response:
        """Answer the last message of a conversation."""
        body = parse(ChatBody, await read_fields(request, _MAX_BODY_BYTES), strict=True)
        model = await services.catalog.find(body.model, "listener", "chat")
        refuse_unsupported(body)
        _refuse_books(body)
        if model.kind == "chat":
            return await chat_bare.answer(request, services, model.id, body)
        return await _listen(request, services, model, body)

    return routes


def _refuse_books(body: ChatBody) -> None:
    chars = sum(len(text_of(getattr(message, "content", None))) for message in body.messages)
    if chars > _MAX_CHARS:
        raise E3RGError(
            "context_length_exceeded",
            f"messages have {chars} characters; at most {_MAX_CHARS} are taken, and the model's "
            "window may hold less",
            param="messages",
        )


async def _listen(request: Request, services: Services, model: Model, body: ChatBody) -> Response:
    now = time.time()
    deadline = due(services.profile.turn)
    expires_at = int(now) + AUDIO_S
    place = services.runner.take()
    try:

        async def read() -> TurnRequest:
            async with bounded(deadline):
                return await read_turn(services, model, body, deadline)

        turn = await until_gone(request.receive, read())
        speaking = "audio" in (body.modalities or ())
        events = services.runner.run(turn, place)
        if body.stream:
            chunks = Chunks(model.id, body.include_usage)
            return await started(
                request, chat_reply.stream(events, turn, chunks, speaking, expires_at)
            )
        audio = (body.audio or AudioOut()) if speaking else None
        whole = chat_reply.whole(events, turn, model.id, audio, expires_at)
        return JSONResponse(await until_gone(request.receive, whole))
    finally:
        place.release_unused()
