"""Portrait bytes → a 512×512 picture framed around one face, with its mesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from e3rg.errors import E3RGError
from e3rg.vision.face import FaceFinder
from e3rg.vision.image import decode_image

_FOREHEAD, _CHIN = 10, 152
_RIGHT_CHEEK, _LEFT_CHEEK = 234, 454
# Height of the face (forehead to chin) in the framed picture.
_FACE_WANTED, _FACE_LEAST, _FACE_MOST = 0.42, 0.33, 0.62
_FACE_CENTRE = 0.46  # from the top


@dataclass(frozen=True, slots=True)
class FramedPortrait:
    """A portrait as it is rendered.

    Attributes:
        image: BGR, shape (size, size, 3).
        landmarks: shape (468, 3), pixels of ``image``, MediaPipe's numbering; z on the same scale.
    """

    image: NDArray[np.uint8]
    landmarks: NDArray[np.floating[Any]]


def frame_portrait(data: bytes, faces: FaceFinder, size: int) -> FramedPortrait:
    """Decode a portrait and frame it on its largest face.

    Args:
        data: PNG, JPEG or WebP bytes.
        faces: face finder.
        size: side of the result in pixels.

    Raises:
        E3RGError: ``portrait_no_face``, or an error of ``decode_image``.
    """
    image = decode_image(data, param="portrait")
    boxes = faces.detect(image)
    if not boxes:
        raise E3RGError(
            "portrait_no_face",
            "portrait shows no face; use a picture with one face, seen from the front",
            param="portrait",
            status=422,
        )
    landmarks = faces.mesh(image, boxes[0]).landmarks
    left, top, side = _square(landmarks, image.shape[1], image.shape[0])
    scale = size / side
    matrix = np.array([[scale, 0, -left * scale], [0, scale, -top * scale]])
    matrix[:, 2] += scale / 2 - 0.5  # pixel centres stay pixel centres
    framed = _resample(image, matrix, size, left, top, side)
    moved = landmarks.copy()
    moved[:, :2] = landmarks[:, :2] * scale + matrix[:, 2]
    moved[:, 2] *= scale
    return FramedPortrait(framed, moved.astype(np.float32))


def _square(
    landmarks: NDArray[np.floating[Any]], width: int, height: int
) -> tuple[float, float, float]:
    """Left, top and side of the square to cut out; it may reach over the picture's edges."""
    face = float(np.linalg.norm(landmarks[_FOREHEAD, :2] - landmarks[_CHIN, :2]))
    cx = float((landmarks[_RIGHT_CHEEK, 0] + landmarks[_LEFT_CHEEK, 0]) / 2)
    cy = float((landmarks[_FOREHEAD, 1] + landmarks[_CHIN, 1]) / 2)
    inner = float(min(width, height))
    if _FACE_LEAST <= face / inner <= _FACE_MOST:
        side = inner
    elif face / inner < _FACE_LEAST:
        side = face / _FACE_WANTED
    else:
        side = face / _FACE_MOST
    left, top = cx - side / 2, cy - side * _FACE_CENTRE
    if side <= width:
        left = min(max(left, 0.0), width - side)
    if side <= height:
        top = min(max(top, 0.0), height - side)
    return left, top, side


def _resample(
    image: NDArray[np.uint8],
    matrix: NDArray[np.float64],
    size: int,
    left: float,
    top: float,
    side: float,
) -> NDArray[np.uint8]:
    shrink = side / size
    if shrink > 1:
        # Average what one output pixel covers; INTER_AREA is not offered by warpAffine.
        image = cv2.GaussianBlur(image, (0, 0), 0.45 * shrink).astype(np.uint8, copy=False)
    method = cv2.INTER_CUBIC if shrink < 1 else cv2.INTER_LINEAR
    framed = cv2.warpAffine(
        image, matrix, (size, size), flags=method, borderMode=cv2.BORDER_REFLECT_101
    )
    height, width = image.shape[:2]
    if left >= 0 and top >= 0 and left + side <= width and top + side <= height:
        return framed.astype(np.uint8, copy=False)
    # The picture ends inside the frame: its mirrored rest is blurred, so that nothing repeats.
    inside = np.full((height, width), 255, np.uint8)
    mask = cv2.warpAffine(inside, matrix, (size, size), borderValue=(0,))
    soft = cv2.GaussianBlur(cv2.erode(mask, np.ones((9, 9), np.uint8)), (0, 0), 4)
    blurred = cv2.GaussianBlur(framed, (0, 0), 24)
    weight = soft[..., np.newaxis].astype(np.float32) / 255
    return np.asarray(framed * weight + blurred * (1 - weight), np.uint8)
