"""Preflight: every code, with the numbers in the message, on degraded real and drawn faces."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from shared_data import shared

from e3rg.config import model_dir
from e3rg.errors import E3RGError
from e3rg.identities import preflight
from e3rg.identities.preflight import inspect_portrait
from e3rg.identities.store import DEFAULT_IDENTITY, IdentityStore
from e3rg.identities.types import Identity
from e3rg.models.store import ModelStore
from e3rg.vision.face import FaceFinder

Picture = NDArray[np.uint8]
REPOSITORY = Path(__file__).parents[2]
FEATURES = json.loads((REPOSITORY / "scripts/draw_portraits/features.json").read_text())
STORE = IdentityStore(Path("nowhere"))
BUILTINS = STORE.list()


@pytest.fixture(scope="module")
def faces() -> FaceFinder:
    return FaceFinder.load(ModelStore(model_dir()))


@pytest.fixture(scope="module")
def drawn() -> Picture:
    """The default listener at 512×512, with room around the face."""
    data = STORE.portrait(STORE.default().portrait)
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return np.asarray(cv2.resize(picture, (512, 512), interpolation=cv2.INTER_AREA), np.uint8)


def encode(picture: NDArray[np.generic], extension: str = ".png") -> bytes:
    return bytes(cv2.imencode(extension, picture)[1])


def blur(sigma: float) -> Callable[[Picture], Picture]:
    return lambda p: np.asarray(cv2.GaussianBlur(p, (0, 0), sigma), np.uint8)


def shrink(share: float) -> Callable[[Picture], Picture]:
    return lambda p: np.asarray(
        cv2.resize(p, None, fx=share, fy=share, interpolation=cv2.INTER_AREA), np.uint8
    )


def enlarge(share: float) -> Callable[[Picture], Picture]:
    return lambda p: np.asarray(cv2.resize(shrink(share)(p), p.shape[1::-1]), np.uint8)


def rotate(degrees: float) -> Callable[[Picture], Picture]:
    def turned(picture: Picture) -> Picture:
        size = picture.shape[1::-1]
        turn = cv2.getRotationMatrix2D((size[0] / 2, size[1] / 2), degrees, 1.0)
        return np.asarray(cv2.warpAffine(picture, turn, size, borderValue=(128,) * 3), np.uint8)

    return turned


def noise(sigma: float) -> Callable[[Picture], Picture]:
    def noisy(picture: Picture) -> Picture:
        spread = np.random.default_rng(0).normal(0, sigma, picture.shape)
        return np.asarray(np.clip(picture + spread, 0, 255), np.uint8)

    return noisy


def dark(share: float) -> Callable[[Picture], Picture]:
    return lambda p: (p * share).astype(np.uint8)


def crop(rows: slice, columns: slice) -> Callable[[Picture], Picture]:
    return lambda p: np.ascontiguousarray(p[rows, columns])


def two(share: float) -> Callable[[Picture], Picture]:
    """A second, smaller copy beside the first."""

    def beside(picture: Picture) -> Picture:
        second = np.full_like(picture, 128)
        small = shrink(share)(picture)
        second[: small.shape[0], : small.shape[1]] = small
        return np.hstack([picture, second])

    return beside


def same(picture: Picture) -> Picture:
    return picture


def jpeg(quality: int) -> Callable[[Picture], Picture]:
    def squeezed(picture: Picture) -> Picture:
        data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
        return np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), np.uint8)

    return squeezed


ALL = slice(None)

# What passes and what does not: the default listener at 512×512.
DRAWN = [
    ("as is", same, ""),
    ("blur 1", blur(1), ""),
    ("blur 4", blur(4), "portrait_blurred"),
    ("blur 8", blur(8), "portrait_blurred"),
    ("shrunk to 0.6", shrink(0.6), ""),
    ("shrunk to 0.3", shrink(0.3), "portrait_face_too_small"),
    ("shrunk to 0.2", shrink(0.2), "portrait_too_small"),
    ("shrunk to 0.1 and enlarged", enlarge(0.1), "portrait_blurred"),
    ("leaning 15", rotate(15), ""),
    ("leaning 40", rotate(40), "portrait_pose"),
    ("on its side", rotate(90), "portrait_pose"),
    ("upside down", rotate(180), "portrait_pose"),
    ("half of it", crop(ALL, slice(0, 256)), "portrait_face_cropped"),
    ("no chin", crop(slice(0, 325), ALL), "portrait_face_cropped"),
    ("no face", crop(slice(400, 512), ALL), "portrait_too_small"),
    ("two alike", two(1.0), "portrait_multiple_faces"),
    ("a half-size second", two(0.5), "portrait_multiple_faces"),
    ("a face on the wall", two(0.2), ""),
    ("noise 20", noise(20), ""),
    ("noise 200", noise(200), "portrait_no_face"),
    ("dark", dark(0.3), ""),
    ("black", dark(0.0), "portrait_no_face"),
    ("JPEG of quality 10", jpeg(10), ""),
]

# The same for the photograph, whose face is 95 pixels wide.
PHOTOGRAPH = [
    ("as is", same, ""),
    ("blur 0.4", blur(0.4), ""),
    ("blur 1", blur(1), "portrait_blurred"),
    ("shrunk to 0.7", shrink(0.7), "portrait_face_too_small"),
    ("leaning 10", rotate(10), ""),
    ("leaning 30", rotate(30), "portrait_pose"),
    ("upside down", rotate(180), "portrait_pose"),
    ("left side gone", crop(ALL, slice(200, 512)), "portrait_face_cropped"),
    ("chin gone", crop(slice(0, 165), ALL), "portrait_face_cropped"),
    ("noise 30", noise(30), ""),
    ("dark", dark(0.2), ""),
    ("JPEG of quality 5", jpeg(5), ""),
]


def outcome(picture: Picture, faces: FaceFinder) -> str:
    try:
        inspect_portrait(encode(picture), faces)
    except E3RGError as error:
        assert error.param == "portrait"
        assert error.status == 422
        return error.code
    return ""


@pytest.mark.parametrize(("name", "change", "code"), DRAWN, ids=[row[0] for row in DRAWN])
def test_a_drawn_portrait(
    name: str, change: Callable[[Picture], Picture], code: str, drawn: Picture, faces: FaceFinder
) -> None:
    assert outcome(change(drawn), faces) == code


def test_a_photograph(faces: FaceFinder) -> None:
    path = shared("portrait_astronaut.png")
    photograph = np.asarray(cv2.imread(str(path)), np.uint8)
    found = {name: outcome(change(photograph), faces) for name, change, _ in PHOTOGRAPH}
    assert found == {name: code for name, _, code in PHOTOGRAPH}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (shrink(0.3), f"must be at least {preflight.MIN_FACE} px: crop closer"),
        (shrink(0.2), f"is 102×102 pixels; each side must be at least {preflight.MIN_SIDE}"),
        (
            blur(8),
            f"must be at least {preflight.MIN_SHARPNESS:.0f}: send a picture that is in focus",
        ),
        (rotate(40), f"degrees; at most {preflight.MAX_ROLL:.0f} can be animated"),
        (rotate(180), "upside down; turn the picture by 180 degrees"),
        (two(1.0), "shows 2 faces; it must show one"),
        (crop(ALL, slice(0, 256)), "beyond the right edge"),
        (dark(0.0), "send a picture of one face"),
    ],
)
def test_messages_give_the_number_and_the_fix(
    change: Callable[[Picture], Picture], said: str, drawn: Picture, faces: FaceFinder
) -> None:
    with pytest.raises(E3RGError) as caught:
        inspect_portrait(encode(change(drawn)), faces)
    assert said in caught.value.message


def png_header(width: int, height: int) -> bytes:
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "portrait_unreadable"),
        (b"hello, I am not a picture", "portrait_unreadable"),
        (b"GIF89a\x01\x00\x01\x00", "portrait_unreadable"),
        (png_header(400, 400), "portrait_unreadable"),
        (png_header(30_000, 30_000), "portrait_too_large"),
        (b"\xff\xd8" + bytes(preflight.MAX_PORTRAIT_BYTES), "portrait_too_large"),
    ],
    ids=["empty", "text", "gif", "cut short", "30,000×30,000", "too many bytes"],
)
def test_files_that_are_no_portrait(data: bytes, code: str, faces: FaceFinder) -> None:
    with pytest.raises(E3RGError) as caught:
        inspect_portrait(data, faces)
    assert (caught.value.code, caught.value.param, caught.value.status) == (code, "portrait", 422)


def with_alpha(picture: Picture) -> NDArray[np.generic]:
    return np.dstack([picture, np.full(picture.shape[:2], 255, np.uint8)])


@pytest.mark.parametrize(
    ("convert", "extension"),
    [
        (with_alpha, ".png"),
        (with_alpha, ".webp"),
        (lambda p: p.astype(np.uint16) * 257, ".png"),
        (lambda p: cv2.cvtColor(p, cv2.COLOR_BGR2GRAY), ".png"),
        (lambda p: cv2.cvtColor(p, cv2.COLOR_BGR2GRAY), ".jpg"),
        (lambda p: p, ".webp"),
    ],
    ids=["alpha", "alpha webp", "16 bit", "grey", "grey jpeg", "webp"],
)
def test_other_pixel_formats(
    convert: Callable[[Picture], NDArray[np.generic]],
    extension: str,
    drawn: Picture,
    faces: FaceFinder,
) -> None:
    plain = inspect_portrait(encode(drawn), faces)
    report = inspect_portrait(encode(convert(drawn), extension), faces)
    assert np.allclose(report.face, plain.face, atol=0.02)


def test_exif_orientation_is_applied(drawn: Picture, faces: FaceFinder) -> None:
    lying = np.ascontiguousarray(np.rot90(drawn, 1))
    data = encode(lying, ".jpg")
    # Orientation 6: turn by 90 degrees clockwise to show (Exif 2.3, tag 0x0112).
    tiff = b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHHI", 0x0112, 3, 1, 6, 0, 0)
    exif = b"Exif\0\0" + tiff
    marked = data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]
    assert outcome(lying, faces) == "portrait_pose"
    assert abs(inspect_portrait(marked, faces).roll) < 5


@pytest.mark.parametrize("listener", BUILTINS, ids=[item.id for item in BUILTINS])
def test_builtin_portraits_pass_and_the_mesh_lies_on_what_was_drawn(
    listener: Identity, faces: FaceFinder
) -> None:
    data = STORE.portrait(listener.portrait)
    report = inspect_portrait(data, faces)
    assert max(abs(report.yaw), abs(report.pitch), abs(report.roll)) < 12
    picture = np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), np.uint8)
    assert report.width == report.height >= 768
    (face,) = faces.detect(picture)
    assert face.score > 0.8
    mesh = faces.mesh(picture, face)
    assert mesh.presence > 0.95
    points = mesh.landmarks[:, :2].astype(float)
    found = {name: points[list(indices)].mean(axis=0) for name, indices in LANDMARKS.items()}
    width = np.ptp(points[:, 0])
    misses = {
        name: float(np.linalg.norm(found[name] - FEATURES[listener.id][name]) / width)
        for name in LANDMARKS
    }
    assert max(misses.values()) < TOLERANCE, misses
    for right, left in MIRRORED:
        middle = (points[right, 0] + points[left, 0]) / 2
        assert abs(middle - report.width / 2) < 0.03 * width, (right, left)
        assert abs(points[right, 1] - points[left, 1]) < 0.03 * width, (right, left)


TOLERANCE = 0.06
"""Of the face's width."""

# MediaPipe's landmark numbers for what the generator knows; left and right are the picture's
# right and left, as seen from the person.
LANDMARKS = {
    "left_eye": (263, 362, 386, 374),
    "right_eye": (33, 133, 159, 145),
    "left_brow": (300, 293, 334, 296, 336, 276, 283, 282, 295, 285),
    "right_brow": (70, 63, 105, 66, 107, 46, 53, 52, 65, 55),
    "nose_tip": (1, 4),
    "mouth": (13, 14),
    "chin": (152,),
}
MIRRORED = ((33, 263), (133, 362), (61, 291), (234, 454), (105, 334), (172, 397))


def test_the_default_is_drawn() -> None:
    assert DEFAULT_IDENTITY in FEATURES
    assert set(FEATURES) == {item.id for item in BUILTINS}
