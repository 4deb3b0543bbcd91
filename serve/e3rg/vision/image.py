"""Decoding of uploaded pictures, with their size checked before a pixel is allocated."""

from __future__ import annotations

import struct

import cv2
import numpy as np
from numpy.typing import NDArray

from e3rg.errors import E3RGError

MAX_PIXELS = 40_000_000
MAX_SIDE = 16_384

# JPEG markers that start a frame and hold its size (ITU-T T.81, table B.1): SOF0 to SOF15, less
# DHT (C4), JPG (C8) and DAC (CC).
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD8)})


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, JPEG or WebP file from its header alone.

    Formats: PNG (W3C, IHDR), JPEG (ITU-T T.81, SOF), WebP (RFC 9649: VP8, VP8L, VP8X).

    Returns:
        (width, height) in pixels as stored (before EXIF rotation), or None if it is none of these.
    """
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR":
            width, height = struct.unpack(">II", data[16:24])
            return int(width), int(height)
        if data[:2] == b"\xff\xd8":
            return _jpeg_size(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp_size(data)
    except (struct.error, IndexError):
        return None
    return None


def decode_image(
    data: bytes, max_pixels: int = MAX_PIXELS, *, param: str = "image"
) -> NDArray[np.uint8]:
    """Decode a PNG, JPEG or WebP picture; EXIF rotation is applied, transparency becomes white.

    Args:
        data: the file's bytes.
        max_pixels: refuse pictures with more pixels, by the header, before decoding.
        param: the request field that an error names.

    Returns:
        BGR picture, shape (height, width, 3).

    Raises:
        E3RGError: ``image_unreadable`` (422) or ``image_too_large`` (413).
    """
    size = image_size(data)
    if size is None or 0 in size:
        raise _unreadable(param)
    width, height = size
    if width * height > max_pixels or max(size) > MAX_SIDE:
        raise E3RGError(
            "image_too_large",
            f"{param} is {width}×{height} pixels; send at most {max_pixels} pixels "
            f"and {MAX_SIDE} a side",
            param=param,
            status=413,
        )
    # IMREAD_COLOR drops alpha and shows whatever lies under it; only PNG and WebP have alpha, and
    # only IMREAD_COLOR applies EXIF rotation, which only JPEG commonly has.
    flag = cv2.IMREAD_COLOR if data[:2] == b"\xff\xd8" else cv2.IMREAD_UNCHANGED
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flag)
    except cv2.error:
        image = None
    if image is None:
        raise _unreadable(param)
    return _to_bgr(image)


def _to_bgr(image: NDArray[np.generic]) -> NDArray[np.uint8]:
    if image.dtype == np.uint16:
        pixels = (image.astype(np.uint16) >> 8).astype(np.uint8)
    else:
        pixels = image.astype(np.uint8, copy=False)
    if pixels.ndim == 2:
        pixels = pixels[..., np.newaxis]
    channels = pixels.shape[2]
    colour = np.repeat(pixels[..., :1], 3, axis=2) if channels in (1, 2) else pixels[..., :3]
    if channels in (2, 4):
        alpha = pixels[..., -1:].astype(np.uint16)
        if alpha.min() < 255:
            blended = (colour * alpha + 255 * (255 - alpha) + 127) // 255
            colour = blended.astype(np.uint8)
    return np.ascontiguousarray(colour)


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif marker in _JPEG_WITHOUT_LENGTH:
            at += 2
        elif marker in _SOF:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return int(width), int(height)
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    chunk = data[12:16]
    if chunk == b"VP8X":
        return (
            1 + int.from_bytes(data[24:27], "little"),
            1 + int.from_bytes(data[27:30], "little"),
        )
    if chunk == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + ((bits >> 14) & 0x3FFF)
    if chunk == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", data[26:30])
        return int(width) & 0x3FFF, int(height) & 0x3FFF
    return None


def _unreadable(param: str) -> E3RGError:
    return E3RGError(
        "image_unreadable",
        f"{param} is not a readable picture; send a PNG, JPEG or WebP file",
        param=param,
        status=422,
    )
