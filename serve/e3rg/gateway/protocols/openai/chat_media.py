"""Pictures and recordings inside a chat message: base64, bounded before anything is decoded."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import re

import cv2
from starlette.datastructures import UploadFile

from e3rg.errors import E3RGError
from e3rg.gateway.services import Services
from e3rg.gateway.uploads import saved
from e3rg.media.limits import MediaLimits
from e3rg.media.types import Pcm
from e3rg.vision.image import decode_image

_MAX_IMAGE_BYTES = 10_000_000
_DATA_URL = re.compile(r"data:image/[a-z.+-]+;base64,", re.IGNORECASE)


async def face(url: str, param: str) -> bytes:
    """A picture of the speaker as the JPEG still that a camera would have given.

    Nothing is ever fetched: a server that follows its clients' URLs can be led anywhere.

    Args:
        url: ``data:image/...;base64,...``: PNG, JPEG or WebP.
        param: the field, for messages.

    Raises:
        E3RGError: ``unsupported_url``, ``invalid_base64``, ``image_unreadable``,
            ``image_too_large``.
    """
    head = _DATA_URL.match(url)
    if head is None:
        raise E3RGError(
            "unsupported_url",
            f"{param}: nothing is fetched from URLs; send the picture itself, as "
            "data:image/jpeg;base64,...",
            param=param,
        )
    data = _decoded(url[head.end() :], param)
    if len(data) > _MAX_IMAGE_BYTES:
        raise E3RGError(
            "image_too_large",
            f"{param} has {len(data)} bytes; at most {_MAX_IMAGE_BYTES} are taken",
            param=param,
            status=413,
        )
    return await asyncio.to_thread(_still, data, param)


async def voice(services: Services, data: str, param: str) -> Pcm:
    """A recording of the speaker.

    Args:
        services: its decoder, and its limits.
        data: base64 of a file that FFmpeg knows.
        param: the field, for messages.

    Raises:
        E3RGError: ``invalid_base64``; those of MediaDecoder.
    """
    upload = UploadFile(io.BytesIO(_decoded(data, param)))
    try:
        async with saved(upload) as path:
            clip = await services.decode(path, "audio")
    except E3RGError as error:
        if error.param == "audio":
            error.param = param
        raise
    assert clip.audio is not None
    return clip.audio


def _decoded(text: str, param: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise E3RGError("invalid_base64", f"{param} is not valid base64", param=param) from error
    if not data:
        raise E3RGError("invalid_base64", f"{param} is empty", param=param)
    return data


def _still(data: bytes, param: str) -> bytes:
    image = decode_image(data, param=param)
    scale = MediaLimits().frame_side / max(image.shape[:2])
    if scale < 1:
        height, width = (max(2, round(side * scale)) for side in image.shape[:2])
        small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    else:
        small = image
    jpeg: bytes = cv2.imencode(".jpg", small)[1].tobytes()
    return jpeg
