"""Cutting turned squares out of a picture, as the nets want to see them."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray


def square(cx: float, cy: float, side: float, angle: float, size: int) -> NDArray[np.float32]:
    """Affine map, shape (2, 3), from a size×size crop to a turned square of the picture."""
    scale = side / size
    cos, sin = np.cos(angle) * scale, np.sin(angle) * scale
    half = size / 2
    return np.array(
        [[cos, -sin, cx - (cos - sin) * half], [sin, cos, cy - (sin + cos) * half]],
        dtype=np.float32,
    )


def sample(
    image: NDArray[np.uint8], to_picture: NDArray[np.float32], size: int
) -> NDArray[np.uint8]:
    """Cut a crop by an affine map (see ``square``); what lies outside the picture is black.

    Averages pixels when it shrinks much, for the nets are sensitive to aliasing.

    Args:
        image: BGR, shape (height, width, 3).
        to_picture: shape (2, 3), from crop to picture.
        size: pixels a side of the crop.

    Returns:
        RGB, shape (size, size, 3).
    """
    matrix = to_picture.astype(np.float64)
    scale = float(np.hypot(matrix[0, 0], matrix[1, 0]))
    if scale > 2.0:
        # Only the part under the crop is averaged: the picture may be forty megapixels.
        corners = np.array([[0, 0, 1], [size, 0, 1], [0, size, 1], [size, size, 1]]) @ matrix.T
        low = np.maximum(np.floor(corners.min(axis=0)).astype(int) - 2, 0)
        high = np.minimum(np.ceil(corners.max(axis=0)).astype(int) + 2, image.shape[1::-1])
        if (high - low).min() <= 0:
            return np.zeros((size, size, 3), np.uint8)
        part = image[low[1] : high[1], low[0] : high[0]]
        width, height = (max(1, round(n * 1.5 / scale)) for n in (high - low))
        matrix[:, 2] -= low
        matrix = np.diag([width / part.shape[1], height / part.shape[0]]) @ matrix
        image = _as_uint8(cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA))
    crop = cv2.warpAffine(
        image,
        matrix,
        (size, size),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_CONSTANT,
    )
    return _as_uint8(cv2.cvtColor(crop, cv2.COLOR_BGR2RGB))


def _as_uint8(image: NDArray[np.generic]) -> NDArray[np.uint8]:
    return image.astype(np.uint8, copy=False)
