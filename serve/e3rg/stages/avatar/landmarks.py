"""Landmark numbers of MediaPipe's canonical face mesh, and measures taken from a mesh.

"Right" and "left" are the subject's own; right is on the picture's left side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]

LIPS_OUTER_UPPER = (61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291)
LIPS_OUTER_LOWER = (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291)
LIPS_INNER_UPPER = (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308)
LIPS_INNER_LOWER = (78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308)
# Each lid from the picture's left corner to the right one.
EYES_UPPER = (
    (33, 246, 161, 160, 159, 158, 157, 173, 133),
    (362, 398, 384, 385, 386, 387, 388, 466, 263),
)
EYES_LOWER = (
    (33, 7, 163, 144, 145, 153, 154, 155, 133),
    (362, 382, 381, 380, 374, 373, 390, 249, 263),
)
# Each brow from its outer to its inner end: upper edge, lower edge.
BROWS_UPPER = ((70, 63, 105, 66, 107), (300, 293, 334, 296, 336))
BROWS_LOWER = ((46, 53, 52, 65, 55), (276, 283, 282, 295, 285))
FACE_OVAL = (
    10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377, 152,
    148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109,
)  # fmt: skip
CHIN, FOREHEAD, NOSE_TIP = 152, 10, 1
NOSE_SIDES = (129, 358)
CHEEKS = (50, 280)


CLOSED = 0.05
"""Lips nearer than this, in distances between the eyes, are closed: the mesh is no finer."""


@dataclass(frozen=True, slots=True)
class FaceFrame:
    """Coordinates that turn and grow with the face.

    Attributes:
        unit: distance between the eyes' centres in pixels; every other length is in this unit.
        axes: shape (2, 2), rows: the unit vectors to the picture's right along the eyes, and down.
        eyes: shape (2, 2), the eyes' centres in pixels, the subject's right eye first.
        mouth: shape (2,), middle between the inner corners of the mouth in pixels.
        half: half of the distance between those corners.
        chin: distance from the mouth's middle down to the chin.
        upper, lower: shape (n, 2), inner edges of the lips, in mouth coordinates: origin at
            ``mouth``, x to the picture's right, y down.
        lip_upper, lip_lower: thickness of the lips.
    """

    unit: float
    axes: FloatArray
    eyes: FloatArray
    mouth: FloatArray
    half: float
    chin: float
    upper: FloatArray
    lower: FloatArray
    lip_upper: float
    lip_lower: float

    def local(self, points: FloatArray, origin: FloatArray) -> FloatArray:
        """Pixels (..., 2) → units of the face, from an origin in pixels."""
        return np.asarray((points - origin) @ self.axes.T / self.unit, np.float32)

    def pixels(self, points: FloatArray, origin: FloatArray) -> FloatArray:
        """The inverse of local."""
        return np.asarray(points * self.unit @ self.axes + origin, np.float32)

    def vector(self, dx: FloatArray, dy: FloatArray) -> FloatArray:
        """Vectors in units along the face's axes → pixels, shape (2, ...)."""
        moved = self.unit * (
            dx[..., np.newaxis] * self.axes[0] + dy[..., np.newaxis] * self.axes[1]
        )
        return np.asarray(np.moveaxis(moved, -1, 0), np.float32)


def face_frame(landmarks: FloatArray) -> FaceFrame:
    """Measure a mesh of shape (468, 3)."""
    xy = landmarks[:, :2]
    eyes = np.array([(xy[u[0]] + xy[u[-1]]) / 2 for u in EYES_UPPER], np.float32)
    across = eyes[1] - eyes[0]
    unit = float(np.linalg.norm(across))
    ex = across / unit
    axes = np.array([ex, [-ex[1], ex[0]]], np.float32)
    mouth = ((xy[78] + xy[308]) / 2).astype(np.float32)

    def local(index: tuple[int, ...]) -> FloatArray:
        return np.asarray((xy[list(index)] - mouth) @ axes.T / unit, np.float32)

    upper, lower = local(LIPS_INNER_UPPER), local(LIPS_INNER_LOWER)
    outer_upper, outer_lower = local(LIPS_OUTER_UPPER), local(LIPS_OUTER_LOWER)
    middle = len(LIPS_INNER_UPPER) // 2
    return FaceFrame(
        unit=unit,
        axes=axes,
        eyes=eyes,
        mouth=mouth,
        half=float(upper[-1, 0] - upper[0, 0]) / 2,
        chin=float(local((CHIN,))[0, 1] - lower[middle, 1]),
        upper=upper,
        lower=np.maximum(lower, np.stack([lower[:, 0], upper[:, 1]], axis=1)),
        lip_upper=max(float(upper[middle, 1] - outer_upper[middle, 1]), 0.03),
        lip_lower=max(float(outer_lower[middle, 1] - lower[middle, 1]), 0.04),
    )
