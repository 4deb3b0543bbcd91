"""/v1/audio/speech (https://platform.openai.com/docs/api-reference/audio/createSpeech).

Text is spoken sentence by sentence: one is sent while the next is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from e3rg.deadline import bounded
from e3rg.emotions.instructions import NEUTRAL, delivery_of
from e3rg.errors import E3RGError
from e3rg.gateway.bodies import ModelName, Strict, Voice, parse, voice_name
from e3rg.gateway.catalog import Model
from e3rg.gateway.encoding import encoded
from e3rg.gateway.estimates import speech_estimate
from e3rg.gateway.intake import clean_text
from e3rg.gateway.openapi import gives, takes
from e3rg.gateway.places import Place
from e3rg.gateway.protocols.openai.speaking import speak
from e3rg.gateway.services import Services
from e3rg.gateway.streaming import EventStream, typed_event, until_gone
from e3rg.gateway.time_limit import due
from e3rg.gateway.uploads import read_fields
from e3rg.gateway.voices import find_voice
from e3rg.media.encode import MIME_TYPES
from e3rg.media.sound_encoder import SoundEncoder, SoundFormat
from e3rg.media.types import Pcm
from e3rg.stages.speech.engine import MAX_SPEED, MIN_SPEED
from e3rg.turn.sentences import SentenceSplitter

_MAX_CHARS = 4096
_TOKENS_A_SECOND = 20
"""OpenAI counts a token for each 50 ms of spoken sound
(https://platform.openai.com/docs/guides/realtime-costs)."""
# Nothing may stand between the bytes of a sound file.
_NO_PINGS = 1e9


class SpeechBody(Strict):
    """What a client sends."""

    model: ModelName
    input: str = Field(
        description="what to say",
        json_schema_extra={"minLength": 1, "maxLength": _MAX_CHARS},
    )
    voice: Voice | None = Field(
        default=None,
        description="a voice of the engine, an identity, or one of OpenAI's names; "
        "a listener (model e3rg-...) has its own",
    )
    response_format: SoundFormat = "mp3"
    speed: Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False)] = 1.0
    stream_format: Literal["audio", "sse"] = "audio"
    instructions: Annotated[str, Field(max_length=_MAX_CHARS)] | None = Field(
        default=None, description='how to say it: the emotion, e.g. "cheerful, a little excited"'
    )


class SpeechDelta(BaseModel):
    """A piece of the sound file, base64."""

    type: Literal["speech.audio.delta"]
    audio: str


class SpeechUsage(BaseModel):
    """Characters that were read, and 50 ms pieces of sound that were spoken."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class SpeechDone(BaseModel):
    """The end of the sound."""

    type: Literal["speech.audio.done"]
    usage: SpeechUsage


def router(services: Services) -> APIRouter:
    """Make the routes."""
    routes = APIRouter()

    @routes.post(
        "/v1/audio/speech",
        response_class=Response,
        openapi_extra=takes(json=SpeechBody),
        responses=gives(
            events={"speech.audio.delta": SpeechDelta, "speech.audio.done": SpeechDone},
            binary=sorted(mime.partition(";")[0] for mime in MIME_TYPES.values()),
            description="The sound, while it is spoken.",
        ),
    )
    async def create_speech(request: Request) -> Response:
        """Speak a text; the first bytes leave when its first sentence is spoken."""
        body = parse(SpeechBody, await read_fields(request), strict=True)
        place = services.calls.take()
        try:
            return await until_gone(request.receive, _answer(services, body, place))
        finally:
            place.release_unused()

    return routes


async def _answer(services: Services, body: SpeechBody, place: Place) -> Response:
    model = await services.catalog.find(body.model, "speech", "listener")
    lines = spoken_lines(body.input, services)
    voice = await _voice(services, body, model)
    delivery = delivery_of(body.instructions) if body.instructions else NEUTRAL
    async with bounded(due(services.profile.turn)):
        await services.admitter.call(place, "speech", speech_estimate(body.input, body.speed))
    sound = speak(services, sentences(lines), voice, delivery, body.speed, place)
    try:
        # Awaited before the answer begins, so that a refusal can still be one.
        first = await anext(sound)
    except BaseException:
        await sound.aclose()
        raise
    encoder = SoundEncoder(body.response_format, first.sample_rate)
    if body.stream_format == "audio":
        return EventStream(_bytes(first, sound, encoder), encoder.mime_type, ping_s=_NO_PINGS)
    return EventStream(_events(first, sound, encoder, len(body.input)))


async def _voice(services: Services, body: SpeechBody, model: Model) -> str:
    name = voice_name(body.voice)
    if name is not None:
        return await find_voice(services, name)
    if model.kind != "listener":
        raise E3RGError("voice_missing", "voice is missing; name one, such as alloy", param="voice")
    return await find_voice(services, (await services.listener(model.identity)).id)


def spoken_lines(text: str, services: Services) -> list[str]:
    """A text's lines as they are spoken; none where only punctuation is left.

    Raises:
        E3RGError: ``text_empty``, ``text_too_long``, ``unsupported_language``; param ``input``.
    """
    languages = services.profile.turn.languages
    try:
        whole = clean_text(text, _MAX_CHARS, languages, "input")
    except E3RGError as error:
        if error.code == "text_no_words":
            return []
        raise
    if len(text.splitlines()) < 2:
        return [whole]
    lines: list[str] = []
    for line in text.splitlines():
        try:
            lines.append(clean_text(line, _MAX_CHARS, languages, "input"))
        except E3RGError:  # a line with nothing to say, in a text that has something
            continue
    return lines


def sentences(lines: list[str]) -> list[str]:
    """Lines cut into what is spoken in one go."""
    splitter = SentenceSplitter()
    return [*splitter.feed("\n".join(lines)), *splitter.finish()]


async def _encoded(
    first: Pcm, sound: AsyncGenerator[Pcm, None], encoder: SoundEncoder
) -> AsyncGenerator[tuple[bytes, float], None]:
    """The file's bytes, with the seconds that each piece of them adds."""
    async with aclosing(sound):
        yield await asyncio.to_thread(encoder.write, first), first.seconds
        async for pcm in sound:
            yield await asyncio.to_thread(encoder.write, pcm), pcm.seconds
    yield await asyncio.to_thread(encoder.finish), 0.0


async def _bytes(
    first: Pcm, sound: AsyncGenerator[Pcm, None], encoder: SoundEncoder
) -> AsyncGenerator[bytes, None]:
    async with aclosing(_encoded(first, sound, encoder)) as parts:
        async for data, _ in parts:
            if data:
                yield data


async def _events(
    first: Pcm, sound: AsyncGenerator[Pcm, None], encoder: SoundEncoder, chars: int
) -> AsyncGenerator[bytes, None]:
    seconds = 0.0
    async with aclosing(_encoded(first, sound, encoder)) as parts:
        try:
            async for data, more in parts:
                seconds += more
                if data:
                    yield typed_event("speech.audio.delta", audio=encoded(data))
        except E3RGError as error:
            yield typed_event("error", **error.to_json())
            return
    spoken = round(seconds * _TOKENS_A_SECOND)
    usage = {"input_tokens": chars, "output_tokens": spoken, "total_tokens": chars + spoken}
    yield typed_event("speech.audio.done", usage=usage)
