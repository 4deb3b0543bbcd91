"""/v1/embeddings (https://platform.openai.com/docs/api-reference/embeddings)."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from e3rg.deadline import bounded
from e3rg.errors import E3RGError
from e3rg.gateway.bodies import ModelName, Strict, parse, unsupported
from e3rg.gateway.encoding import encoded
from e3rg.gateway.estimates import embedding_estimate
from e3rg.gateway.openapi import fails, gives, takes
from e3rg.gateway.places import Place
from e3rg.gateway.services import Services
from e3rg.gateway.streaming import until_gone
from e3rg.gateway.time_limit import due
from e3rg.gateway.uploads import read_fields
from e3rg.stages.memory.engine import Embeddings

_MAX_TEXTS = 2048
_MAX_CHARS = 500_000

_Tokens = list[int]


class EmbeddingsBody(Strict):
    """What a client sends; a text is read up to the model's window (128 tokens here)."""

    model: ModelName
    input: str | list[str] | _Tokens | list[_Tokens]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None
    user: str | None = None


class Embedding(BaseModel):
    """A vector of length 1: numbers, or base64 of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """Tokens that the model read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    """The vectors, in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


def router(services: Services) -> APIRouter:
    """Make the routes."""
    routes = APIRouter()

    @routes.post(
        "/v1/embeddings",
        response_class=Response,
        openapi_extra=takes(json=EmbeddingsBody),
        responses={**gives(EmbeddingList), **fails(404, 503, 504)},
    )
    async def create_embedding(request: Request) -> Response:
        """Vectors of texts."""
        body = parse(EmbeddingsBody, await read_fields(request, 2 * _MAX_CHARS), strict=True)
        model = await services.catalog.find(body.model, "embedding")
        texts = _texts(body.input)
        with services.calls.take() as place:
            embedding = _embed(services, texts, body.dimensions, place)
            found = await until_gone(request.receive, embedding)
            # Half a million numbers take a second to write.
            data = await asyncio.to_thread(_answer, found, model.id, body.encoding_format)
        return Response(data, media_type="application/json")

    return routes


def _texts(given: str | list[str] | _Tokens | list[_Tokens]) -> tuple[str, ...]:
    texts = [given] if isinstance(given, str) else given
    if not texts:
        raise _invalid("input is empty; send a text, or a list of texts")
    if len(texts) > _MAX_TEXTS:
        raise _invalid(f"input has {len(texts)} texts; at most {_MAX_TEXTS} are taken at once")
    words: list[str] = []
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise unsupported(
                "input",
                "tokens of another model's tokenizer mean nothing here; send texts "
                "(LangChain: check_embedding_ctx_length=False)",
            )
        if not text:
            raise _invalid(f"input.{number} is an empty text; leave it out")
        words.append(text)
    if (chars := sum(map(len, words))) > _MAX_CHARS:
        raise _invalid(f"input has {chars} characters; at most {_MAX_CHARS} are taken at once")
    return tuple(words)


def _invalid(message: str) -> E3RGError:
    return E3RGError("invalid_input", message, param="input")


async def _embed(
    services: Services, texts: tuple[str, ...], dimensions: int | None, place: Place
) -> Embeddings:
    memory = services.stages.memory
    async with bounded(due(services.profile.turn)):
        await services.admitter.call(place, "memory", embedding_estimate(texts))
        if dimensions is not None:
            # Known before all of the work is done.
            size = (await memory.embed(texts[:1])).vectors.shape[1]
            if size != dimensions:
                raise unsupported("dimensions", f"this model's vectors have {size}; leave it out")
        return await memory.embed(texts)


def _answer(found: Embeddings, model: str, encoding: str | None) -> bytes:
    vectors: list[Any]
    if encoding == "base64":
        vectors = [encoded(row.tobytes()) for row in found.vectors.astype("<f4")]
    else:
        vectors = found.vectors.tolist()
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
    return json.dumps({"object": "list", "data": data, "model": model, "usage": usage}).encode()
