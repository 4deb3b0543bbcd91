"""Pictures are measured before they are decoded, and decoded as people see them."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e3rg.errors import E3RGError
from e3rg.vision.image import decode_image, image_size

PICTURE = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)


def encode(extension: str, image: np.ndarray = PICTURE, *options: int) -> bytes:
    return cv2.imencode(extension, image, list(options))[1].tobytes()


def png_claiming(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = io.BytesIO()
    for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 9)), (b"IEND", b"")):
        checksum = struct.pack(">I", zlib.crc32(kind + body))
        chunks.write(struct.pack(">I", len(body)) + kind + body + checksum)
    return b"\x89PNG\r\n\x1a\n" + chunks.getvalue()


@pytest.mark.parametrize("extension", [".png", ".jpg", ".webp"])
def test_size_and_pixels(extension: str) -> None:
    lossless = (cv2.IMWRITE_WEBP_QUALITY, 101) if extension == ".webp" else ()
    data = encode(extension, PICTURE, *lossless)
    assert image_size(data) == (53, 37)
    image = decode_image(data)
    assert image.shape == (37, 53, 3)
    assert image.dtype == np.uint8
    if extension != ".jpg":
        assert (image == PICTURE).all()


@pytest.mark.parametrize("quality", [50, 101])
def test_both_kinds_of_webp(quality: int) -> None:
    assert image_size(encode(".webp", PICTURE, cv2.IMWRITE_WEBP_QUALITY, quality)) == (53, 37)


def test_huge_png_is_refused_by_its_header() -> None:
    data = png_claiming(30_000, 30_000)
    tracemalloc.start()
    with pytest.raises(E3RGError) as error:
        decode_image(data, param="portrait")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (error.value.code, error.value.param, error.value.status) == (
        "image_too_large",
        "portrait",
        413,
    )
    assert peak < 1_000_000


def test_limits_are_exact() -> None:
    data = encode(".png")
    assert decode_image(data, max_pixels=37 * 53).shape == (37, 53, 3)
    with pytest.raises(E3RGError, match="at most 1960 pixels"):
        decode_image(data, max_pixels=37 * 53 - 1)
    with pytest.raises(E3RGError, match="16384 a side"):
        decode_image(png_claiming(20_000, 10))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"RIFF\0\0\0\0WEBP",
        b"GIF89a" + bytes(50),
        png_claiming(0, 10),
        encode(".png")[:60],
        encode(".jpg")[:30],
    ],
)
def test_broken_pictures(data: bytes) -> None:
    with pytest.raises(E3RGError) as error:
        decode_image(data, param="portrait")
    assert error.value.code == "image_unreadable"
    assert "portrait" in error.value.message


def test_transparency_becomes_white_and_grey_becomes_colour() -> None:
    clear = np.zeros((8, 8, 4), np.uint8)
    clear[:4] = (10, 20, 30, 255)
    image = decode_image(encode(".png", clear))
    assert image[0, 0].tolist() == [10, 20, 30]
    assert image[7, 7].tolist() == [255, 255, 255]
    assert decode_image(encode(".png", np.full((8, 8), 99, np.uint8)))[0, 0].tolist() == [99] * 3
    deep = np.full((8, 8, 3), 0x8000, np.uint16)
    assert decode_image(encode(".png", deep))[0, 0].tolist() == [128] * 3


def test_exif_rotation_is_applied() -> None:
    # One EXIF entry: orientation (0x0112) = 6, turn by 90° clockwise to view.
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01" + struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0) + bytes(4)
    data = encode(".jpg")
    app1 = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
    turned = data[:2] + app1 + data[2:]
    assert image_size(turned) == (53, 37)
    assert decode_image(turned).shape == (53, 37, 3)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([".png", ".jpg", ".webp"]), st.data())
def test_damaged_bytes_give_a_picture_or_an_error(extension: str, data: st.DataObject) -> None:
    damaged = bytearray(encode(extension, PICTURE[:9, :9]))
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        image = decode_image(bytes(damaged), max_pixels=100_000)
    except E3RGError as error:
        assert error.code in {"image_unreadable", "image_too_large"}
    else:
        assert image.dtype == np.uint8
        assert image.ndim == 3
