"""/v1/audio/transcriptions
(https://platform.openai.com/docs/api-reference/audio/createTranscription).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import UploadFile

from e3rg.deadline import bounded
from e3rg.errors import E3RGError
from e3rg.gateway.bodies import ModelName, Strict, parse, unsupported
from e3rg.gateway.estimates import hearing_estimate
from e3rg.gateway.openapi import gives, takes
from e3rg.gateway.places import Place
from e3rg.gateway.protocols.openai.transcription_formats import Granularity, Heard
from e3rg.gateway.services import Services
from e3rg.gateway.streaming import EventStream, begun, typed_event, until_gone
from e3rg.gateway.time_limit import due
from e3rg.gateway.uploads import read_body, refuse_other_files, saved
from e3rg.media.types import Clip
from e3rg.stages.understanding.engine import HeardSegment, ListenRequest
from e3rg.turn.calls import call

_TOKENS_A_SECOND = 10
"""OpenAI counts a token for each 100 ms of heard sound
(https://platform.openai.com/docs/guides/realtime-costs)."""
_REFUSED = {
    "languages": "the model hears one language at a time; use language",
    "keywords": "the model takes no list of words; name them in prompt",
    "known_speaker_names": "speakers are not told apart",
    "known_speaker_references": "speakers are not told apart",
}


class ServerVad(Strict):
    """How OpenAI would cut the sound; here it is always cut at pauses of half a second."""

    type: Literal["server_vad"]
    prefix_padding_ms: int | None = None
    silence_duration_ms: int | None = None
    threshold: float | None = None


class TranscriptionBody(Strict):
    """A form's fields; lists are written as ``name[]``, once for each item."""

    model: ModelName
    language: Annotated[str, Field(max_length=16)] | None = Field(
        default=None, description="ISO 639-1 code of what is spoken"
    )
    prompt: str | None = Field(
        default=None, description="text that came before, or names as they are spelt"
    )
    temperature: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] = "json"
    timestamp_granularities: Annotated[list[Granularity], Field(max_length=8)] | None = None
    stream: bool | None = None
    chunking_strategy: Literal["auto"] | ServerVad | None = None
    include: list[Literal["logprobs"]] | None = None
    languages: list[str] | str | None = None
    keywords: list[str] | str | None = None
    known_speaker_names: list[str] | str | None = None
    known_speaker_references: list[str] | str | None = None

    @property
    def words(self) -> bool:
        """Whether each word's time is wanted."""
        return "word" in (self.timestamp_granularities or ())


class DurationUsage(BaseModel):
    """Length of the recording in seconds."""

    type: Literal["duration"]
    seconds: float


class TranscriptionAnswer(BaseModel):
    """The transcript; ``verbose_json`` adds ``language``, ``duration``, segments and words."""

    model_config = ConfigDict(extra="allow")

    text: str
    usage: DurationUsage


class TranscriptDelta(BaseModel):
    """One more segment of the transcript; all of them joined are the text."""

    type: Literal["transcript.text.delta"]
    delta: str


class TokenUsage(BaseModel):
    """100 ms pieces of sound that were heard, and tokens of the transcript."""

    type: Literal["tokens"]
    input_tokens: int
    output_tokens: int
    total_tokens: int


class TranscriptDone(BaseModel):
    """The whole transcript."""

    type: Literal["transcript.text.done"]
    text: str
    usage: TokenUsage


def router(services: Services) -> APIRouter:
    """Make the routes."""
    routes = APIRouter()

    @routes.post(
        "/v1/audio/transcriptions",
        response_class=Response,
        openapi_extra=takes(form=TranscriptionBody, files={"file": True}),
        responses=gives(
            TranscriptionAnswer,
            events={
                "transcript.text.delta": TranscriptDelta,
                "transcript.text.done": TranscriptDone,
            },
            binary=["text/plain"],
        ),
    )
    async def create_transcription(request: Request) -> Response:
        """Write down what is said in a recording."""
        async with AsyncExitStack() as stack:
            limit = services.profile.turn.max_upload_bytes
            fields, files = await read_body(request, stack, limit)
            upload = _file(files)
            body = parse(TranscriptionBody, fields)
            _check(body)
            await services.catalog.find(body.model, "transcription", "listener")
            place = services.calls.take()
            try:
                return await until_gone(request.receive, _answer(services, body, upload, place))
            finally:
                place.release_unused()

    return routes


def _file(files: dict[str, UploadFile]) -> UploadFile:
    refuse_other_files(files, "file")
    if "file" not in files:
        raise E3RGError("file_missing", "file is missing; send a recording in it", param="file")
    return files["file"]


def _check(body: TranscriptionBody) -> None:
    for name, reason in _REFUSED.items():
        if getattr(body, name):
            raise unsupported(name, reason)
    if body.include:
        raise unsupported("include", "logprobs are not given; leave it out")
    if body.timestamp_granularities is not None and body.response_format != "verbose_json":
        raise unsupported(
            "timestamp_granularities",
            "times come with response_format verbose_json only",
        )
    if body.stream and body.response_format not in {"json", "text"}:
        raise unsupported("response_format", "a stream has its own events; use json with it")


async def _answer(
    services: Services, body: TranscriptionBody, upload: UploadFile, place: Place
) -> Response:
    deadline = due(services.profile.turn)
    async with bounded(deadline), saved(upload) as path:
        clip = await services.decode(path, "audio", "file")
        await services.admitter.call(place, "understanding", hearing_estimate(clip.seconds))
    segments = _listen(services, body, clip, deadline, place)
    if body.stream:
        return EventStream(_events(await begun(segments), clip.seconds))
    async with aclosing(segments):
        found = [segment async for segment in segments]
    language = body.language or services.profile.turn.languages[0]
    heard = Heard(found, found[0].language if found else language, clip.seconds)
    if body.response_format == "json":
        return JSONResponse(heard.as_json())
    if body.response_format == "verbose_json":
        wanted = body.timestamp_granularities or ["segment"]
        return JSONResponse(heard.as_verbose_json(wanted))
    return PlainTextResponse(heard.as_text(body.response_format))


async def _listen(
    services: Services, body: TranscriptionBody, clip: Clip, deadline: float, place: Place
) -> AsyncGenerator[HeardSegment, None]:
    """Segments as they are known; the place is given back at the end."""
    place.use()
    try:
        assert clip.audio is not None  # the decoder refuses what has no sound
        wanted = ListenRequest(
            clip.audio, body.language, body.prompt or "", body.temperature, body.words
        )
        limit = services.profile.turn.timeout_s
        async with aclosing(services.stages.understanding.listen(wanted)) as segments:
            while True:
                # A context variable set across a yield would leak into the consumer's context.
                async with bounded(deadline):
                    segment = await call("understanding", anext(segments, None), limit)
                if segment is None:
                    return
                yield segment
    finally:
        place.release()


async def _events(
    segments: AsyncGenerator[HeardSegment, None], seconds: float
) -> AsyncGenerator[bytes, None]:
    text = ""
    tokens = 0
    async with aclosing(segments):
        try:
            async for segment in segments:
                delta = f" {segment.text}" if text else segment.text
                text += delta
                tokens += len(segment.tokens)
                yield typed_event("transcript.text.delta", delta=delta)
        except E3RGError as error:
            yield typed_event("error", **error.to_json())
            return
    heard = round(seconds * _TOKENS_A_SECOND)
    usage = {
        "type": "tokens",
        "input_tokens": heard,
        "input_token_details": {"audio_tokens": heard, "text_tokens": 0},
        "output_tokens": tokens,
        "total_tokens": heard + tokens,
    }
    yield typed_event("transcript.text.done", text=text, usage=usage)
