"""Pictures and recordings inside a chat message: base64, bounded before anything is decoded."""

from __future__ import annotations

import asyncio
import io

import cv2
from starlette.datastructures import UploadFile

from e3rg.errors import E3RGError
from e3rg.gateway.encoding import decoded, image_in
from e3rg.gateway.services import Services
from e3rg.gateway.uploads import saved
from e3rg.media.limits import MediaLimits
from e3rg.media.types import Pcm
from e3rg.vision.image import decode_image

_MAX_IMAGE_BYTES = 10_000_000


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
    body = image_in(url)
    if body is None:
        raise E3RGError(
            "unsupported_url",
            f"{param}: nothing is fetched from URLs; send the picture itself, as "
            "data:image/jpeg;base64,...",
            param=param,
        )
    data = _bytes_of(body, param)
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
    upload = UploadFile(io.BytesIO(_bytes_of(data, param)))
    async with saved(upload) as path:
        clip = await services.decode(path, "audio", param)
    assert clip.audio is not None
    return clip.audio


def _bytes_of(text: str, param: str) -> bytes:
    data = decoded(text)
    if data is None:
        raise E3RGError("invalid_base64", f"{param} is not valid base64", param=param)
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
