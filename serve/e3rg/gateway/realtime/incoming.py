"""Reads the items that clients put into a conversation."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import cv2
from pydantic import Field

from e3rg.config import TurnConfig
from e3rg.errors import E3RGError
from e3rg.gateway.bodies import Id, Strict, parse, unsupported
from e3rg.gateway.encoding import decoded, image_in
from e3rg.gateway.ids import new_id
from e3rg.gateway.intake import clean_text
from e3rg.gateway.realtime.formats import AudioFormat, Resampler, decode
from e3rg.gateway.realtime.items import Item, Kind, Part
from e3rg.media.types import SPEECH_INPUT_RATE, Pcm
from e3rg.vision.image import decode_image

MAX_STILLS = 8
_MAX_STILL_BYTES = 512_000
_MAX_STILL_PIXELS = 4_000_000
_MAX_PARTS = 16

_KINDS: dict[str, dict[str, Kind]] = {
    "user": {
        "input_text": "input_text",
        "input_audio": "input_audio",
        "input_image": "input_image",
    },
    # "text" and "audio" are what response.content_part events call the same parts.
    "assistant": {
        "output_text": "output_text",
        "output_audio": "output_audio",
        "text": "output_text",
        "audio": "output_audio",
    },
    "system": {"input_text": "input_text"},
}


class _Content(Strict):
    type: Annotated[str, Field(max_length=32)]
    text: str | None = None
    audio: str | None = None
    transcript: str | None = None
    image_url: str | None = None
    detail: Literal["auto", "low", "high"] | None = None


class _Message(Strict):
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system"]
    content: Annotated[list[_Content], Field(min_length=1, max_length=_MAX_PARTS)]
    id: Id | None = None
    object: Literal["realtime.item"] | None = None
    status: Literal["completed", "incomplete", "in_progress"] | None = None


async def read_item(fields: Any, limits: TurnConfig, audio_format: AudioFormat) -> Item:
    """An item as a client sent it, its sound and pictures decoded.

    Raises:
        E3RGError: naming the field.
    """
    if not isinstance(fields, dict):
        raise E3RGError("invalid_type", "item: an object is wanted", param="item")
    if fields.get("type", "message") != "message":
        raise unsupported(
            "item.type",
            f"items of type {str(fields['type'])[:32]!r} are not taken; the listener calls no "
            "tools, send a message",
        )
    try:
        message = parse(_Message, fields, strict=True)
    except E3RGError as error:
        raise E3RGError(error.code, error.message, param=f"item.{error.param}") from error
    chars = sum(len(part.text or "") + len(part.transcript or "") for part in message.content)
    if chars > limits.max_text_chars:
        raise E3RGError(
            "text_too_long",
            f"item.content has {chars} characters; at most {limits.max_text_chars} are taken",
            param="item.content",
        )
    parts = [
        await _part(message.role, content, f"item.content.{index}", limits, audio_format)
        for index, content in enumerate(message.content)
    ]
    return Item(message.id or new_id("item"), message.role, parts)


async def _part(
    role: str, content: _Content, param: str, limits: TurnConfig, audio_format: AudioFormat
) -> Part:
    kind = _KINDS[role].get(content.type)
    if kind is None:
        raise E3RGError(
            "invalid_value",
            f"{param}.type of a {role} message is one of {', '.join(_KINDS[role])}",
            param=f"{param}.type",
        )
    if kind == "input_image":
        picture = await read_still(content.image_url, f"{param}.image_url")
        return Part(kind, image=picture)
    if kind == "input_audio":
        if content.audio is None:
            raise _missing(f"{param}.audio")
        sound = read_audio(content.audio, audio_format, limits.max_audio_s, f"{param}.audio")
        resampler = Resampler(SPEECH_INPUT_RATE)
        pcm = Pcm(resampler.feed(sound) + resampler.flush(), SPEECH_INPUT_RATE)
        if not pcm.samples:
            raise E3RGError("audio_empty", f"{param}.audio is empty", param=f"{param}.audio")
        return Part(kind, audio=pcm)
    text = content.transcript if kind == "output_audio" else content.text
    field = "transcript" if kind == "output_audio" else "text"
    if text is None:
        raise _missing(f"{param}.{field}")
    if role != "user":
        return Part(kind, text)
    return Part(kind, clean_text(text, limits.max_text_chars, limits.languages, f"{param}.{field}"))


def read_audio(value: Any, audio_format: AudioFormat, max_s: float, param: str = "audio") -> Pcm:
    """Base64 text as PCM16 at the format's rate.

    Raises:
        E3RGError: ``invalid_value``, or ``audio_too_long`` beyond ``max_s`` seconds.
    """
    data = decoded(value) if isinstance(value, str) else None
    if data is None:
        raise E3RGError(
            "invalid_value", f"{param} is not base64 text of {audio_format}", param=param
        )
    pcm = decode(data, audio_format)
    if pcm.seconds > max_s:
        raise E3RGError(
            "audio_too_long",
            f"{param} lasts {pcm.seconds:.0f} s; at most {max_s:.0f} s are taken at once",
            param=param,
        )
    return pcm


async def read_still(value: Any, param: str = "image") -> bytes:
    """A picture's data URI (RFC 2397) as a JPEG file.

    Raises:
        E3RGError: ``invalid_value``, ``image_too_large`` or ``image_unreadable``.
    """
    body = image_in(value) if isinstance(value, str) else None
    if body is None:
        raise E3RGError(
            "invalid_value",
            f'{param} must be a data URI such as "data:image/jpeg;base64,..."; pictures are not '
            "fetched from elsewhere",
            param=param,
        )
    if len(body) > _MAX_STILL_BYTES * 4 // 3 + 4:
        raise E3RGError(
            "image_too_large",
            f"{param} has more than {_MAX_STILL_BYTES} bytes; send a smaller picture",
            param=param,
            status=413,
        )
    data = decoded(body)
    if data is None:
        raise E3RGError("invalid_value", f"{param} is not base64 text", param=param)
    return await asyncio.to_thread(_jpeg, data, param)


def _jpeg(data: bytes, param: str) -> bytes:
    picture = decode_image(data, _MAX_STILL_PIXELS, param=param)
    if data[:2] == b"\xff\xd8":
        return data
    return cv2.imencode(".jpg", picture)[1].tobytes()


def _missing(param: str) -> E3RGError:
    return E3RGError("missing_required_parameter", f"{param} is missing", param=param)
