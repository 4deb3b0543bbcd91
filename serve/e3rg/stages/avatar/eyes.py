"""Pictures of eyes: the eyeball with what the lids hide filled in, and the colour of lashes."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]

_BLACK = np.array([16, 128, 128])


def eyeball(patch: NDArray[np.uint8], seen: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Fill in what lids hide.

    Near the rim the picture is carried on as it is. Farther up, where that would draw the iris
    out into a stripe, comes the iris's own lower half turned over, and the white around it.

    Args:
        patch: YUV, shape (h, w, 3).
        seen: shape (h, w), not 0 where the eyeball is seen.
    """
    near = cv2.inpaint(patch, (seen == 0).astype(np.uint8), 3, cv2.INPAINT_TELEA)
    if not seen.any():
        return near.astype(np.uint8, copy=False)
    luma = patch[..., 0].astype(np.float32)
    low, high = np.percentile(luma[seen > 0], (30, 70))
    centre = round(float(np.nonzero((seen > 0) & (luma <= low))[0].mean()))
    rows = np.arange(len(patch))
    turned = np.clip(2 * centre - rows, 0, len(patch) - 1)
    above = (rows < centre)[:, np.newaxis] & (seen == 0) & (seen[turned] > 0)
    white = np.median(patch[(seen > 0) & (luma >= high)], axis=0)
    shaded = 0.86 * (white - _BLACK) + _BLACK  # by the lid above it
    far = np.where(above[..., np.newaxis], patch[turned], shaded).astype(np.float32)
    far = cv2.GaussianBlur(far, (0, 0), 1.0).astype(np.float32)
    distance = cv2.distanceTransform((seen == 0).astype(np.uint8), cv2.DIST_L2, 3)
    weight = np.clip((distance - 1.5) / 4, 0, 0.85)[..., np.newaxis]
    return np.asarray(np.clip(near + weight * (far - near), 0, 255), np.uint8)


def darkest(yuv: NDArray[np.uint8], points: FloatArray) -> FloatArray:
    """Colour of the darkest quarter of some points, shape (3,)."""
    at = np.clip(np.round(points), 0, yuv.shape[0] - 1).astype(int)
    colours = yuv[at[:, 1], at[:, 0]].astype(np.float32)
    dark = np.argsort(colours[:, 0])[: max(1, len(colours) // 4)]
    return np.asarray(colours[dark].mean(axis=0), np.float32)
