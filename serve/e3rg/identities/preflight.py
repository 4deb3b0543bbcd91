"""Preflight of a portrait: is there one face that can be animated?

The limits were chosen by degrading portraits until their animation or their mesh went wrong; the
table of what passes is in ``tests/unit/test_preflight.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from e3rg.errors import E3RGError
from e3rg.identities.types import MAX_PORTRAIT_BYTES, PortraitReport
from e3rg.vision.face import FaceBox, FaceFinder, FaceMesh, decode_image

MAX_PIXELS = 16_000_000
MIN_SIDE = 128
MIN_FACE = 80
"""Pixels; a face is drawn about 190 pixels wide in a 512×512 video."""
MAX_YAW = 25.0
MAX_PITCH = 25.0
MAX_ROLL = 25.0
MIN_SHARPNESS = 8.0
SECOND_FACE = 0.3
"""A second face at least this wide, as a share of the first one, makes the portrait ambiguous."""

_FACE_WIDTH = 256
_CONTRAST = 48.0
_UPSIDE_DOWN_MARGIN = 0.1
_OUTLINE_SLACK = 0.02


def inspect_portrait(data: bytes, faces: FaceFinder) -> PortraitReport:
    """Check a portrait file.

    Args:
        data: PNG, JPEG or WebP bytes; EXIF rotation is applied, transparency becomes white, grey,
            16-bit and CMYK pictures are converted.
        faces: the face detector and mesh.

    Raises:
        E3RGError: ``portrait_unreadable``, ``portrait_too_large``, ``portrait_too_small``,
            ``portrait_no_face``, ``portrait_multiple_faces``, ``portrait_face_too_small``,
            ``portrait_face_cropped``, ``portrait_pose``, ``portrait_blurred``; param
            ``portrait``, status 422. The message gives the measured value, the limit and the fix.
    """
    picture = decode_portrait(data)
    height, width = picture.shape[:2]
    if min(width, height) < MIN_SIDE:
        raise _refused(
            "too_small",
            f"the portrait is {width}×{height} pixels; each side must be at least {MIN_SIDE}: "
            "send a larger picture",
        )
    face = _only_face(faces.detect(picture))
    _check_upright(picture, face, faces)
    mesh = faces.mesh(picture, face)
    outline = _outline(mesh)
    _check_size(outline)
    _check_inside(outline, width, height)
    _check_pose(mesh)
    sharpness = face_sharpness(picture, outline)
    if sharpness < MIN_SHARPNESS:
        raise _refused(
            "blurred",
            f"the face is too blurred: its sharpness is {sharpness:.1f}; it must be at least "
            f"{MIN_SHARPNESS:.0f}: send a picture that is in focus and not enlarged",
        )
    left, top, right, bottom = outline
    return PortraitReport(
        width=width,
        height=height,
        face=(left / width, top / height, right / width, bottom / height),
        yaw=mesh.yaw,
        pitch=mesh.pitch,
        roll=mesh.roll,
        sharpness=sharpness,
    )


def decode_portrait(data: bytes) -> NDArray[np.uint8]:
    """Decode a portrait file to BGR, shape (height, width, 3).

    Raises:
        E3RGError: ``portrait_unreadable`` or ``portrait_too_large``, before a pixel is allocated.
    """
    if len(data) > MAX_PORTRAIT_BYTES:
        raise _refused(
            "too_large",
            f"the portrait file has {len(data)} bytes; send at most {MAX_PORTRAIT_BYTES} bytes",
        )
    try:
        return decode_image(data, MAX_PIXELS, param="portrait")
    except E3RGError as error:
        reason = "too_large" if error.code == "image_too_large" else "unreadable"
        raise _refused(reason, error.message) from error


def face_sharpness(picture: NDArray[np.uint8], outline: tuple[float, float, float, float]) -> float:
    """Variance of the Laplacian over the face, at 256 pixels' face width and a set contrast.

    The measure is that of Pech-Pacheco et al. (2000), "Diatom autofocusing in brightfield
    microscopy: a comparative study"; scaling size and contrast (standard deviation of the grey
    levels) makes it independent of the picture's size and light.
    """
    left, top, right, bottom = (round(v) for v in outline)
    crop = picture[max(top, 0) : bottom, max(left, 0) : right]
    scale = _FACE_WIDTH / max(right - left, 1)
    size = (_FACE_WIDTH, max(1, round((bottom - top) * scale)))
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    grey = cv2.cvtColor(cv2.resize(crop, size, interpolation=way), cv2.COLOR_BGR2GRAY)
    contrast = max(float(grey.std()), 1.0)
    return float(cv2.Laplacian(grey, cv2.CV_64F).var()) * (_CONTRAST / contrast) ** 2


def _only_face(found: Sequence[FaceBox]) -> FaceBox:
    if not found:
        raise _refused(
            "no_face",
            "no face was found in the portrait; send a picture of one face, seen from the front, "
            "upright, evenly lit and not covered",
        )
    first = found[0]
    rivals = [face for face in found[1:] if face.width >= SECOND_FACE * first.width]
    if rivals:
        raise _refused(
            "multiple_faces",
            f"the portrait shows {len(rivals) + 1} faces; it must show one: crop it to one face",
        )
    return first


def _outline(mesh: FaceMesh) -> tuple[float, float, float, float]:
    low = mesh.landmarks[:, :2].min(axis=0)
    high = mesh.landmarks[:, :2].max(axis=0)
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _check_size(outline: tuple[float, float, float, float]) -> None:
    width = outline[2] - outline[0]
    if width < MIN_FACE:
        raise _refused(
            "face_too_small",
            f"the face is {width:.0f} px wide; it must be at least {MIN_FACE} px: crop closer to "
            "the face or send a larger picture",
        )


def _check_inside(outline: tuple[float, float, float, float], width: int, height: int) -> None:
    left, top, right, bottom = outline
    over = {
        "left": -left / (right - left),
        "top": -top / (bottom - top),
        "right": (right - width) / (right - left),
        "bottom": (bottom - height) / (bottom - top),
    }
    cut = {edge: share for edge, share in over.items() if share > _OUTLINE_SLACK}
    if cut:
        edges = ", ".join(f"{share:.0%} beyond the {edge} edge" for edge, share in cut.items())
        raise _refused(
            "face_cropped",
            f"the face reaches {edges} of the portrait; at most {_OUTLINE_SLACK:.0%} may be cut "
            "off: send a picture of the whole face",
        )


def _check_upright(picture: NDArray[np.uint8], face: FaceBox, faces: FaceFinder) -> None:
    # The nets fit an upright mesh to an upside-down face, too, only less surely.
    turned = faces.detect(np.ascontiguousarray(picture[::-1, ::-1]), small=False)
    if turned and turned[0].score > face.score + _UPSIDE_DOWN_MARGIN:
        raise _refused(
            "pose", "the face is upside down; turn the picture by 180 degrees so that it is upright"
        )


def _check_pose(mesh: FaceMesh) -> None:
    for name, angle, limit, fix in (
        ("turned", mesh.yaw, MAX_YAW, "look into the camera"),
        ("tilted up or down", mesh.pitch, MAX_PITCH, "look into the camera"),
        ("leaning", mesh.roll, MAX_ROLL, "hold the head (or the picture) upright"),
    ):
        if abs(angle) > limit:
            raise _refused(
                "pose",
                f"the head is {name} by {abs(angle):.0f} degrees; at most {limit:.0f} can be "
                f"animated: {fix}",
            )


def _refused(reason: str, message: str) -> E3RGError:
    return E3RGError(f"portrait_{reason}", message, param="portrait", status=422)
