"""Mesh edges moved onto the picture's own lines.

The mesh is right to a few pixels; a cut through lips or lids is seen when it misses by two. Drawn
faces, whose proportions the mesh net has not met, are off by more.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]


def dark_line(
    luma: NDArray[np.uint8], points: FloatArray, down: FloatArray, reach: float
) -> FloatArray:
    """How far to move each point of a closed mouth's seam down, onto the line between the lips.

    Args:
        luma: shape (size, size).
        points: shape (n, 2), pixels, from corner to corner.
        down: unit vector.
        reach: pixels to search up and down.

    Returns:
        Shape (n,), pixels, smooth along the seam, 0 at its ends.
    """
    offsets, profile = _profiles(luma, points, down, reach)
    # Contrast against the search range, less a penalty for going far.
    depth = profile.max(axis=1, keepdims=True) - profile
    score = depth - depth.max() * 0.35 * (offsets / reach) ** 2
    return _smooth_curve(offsets[np.argmax(score, axis=1)], np.ptp(profile, axis=1))


def outer_edge(
    luma: NDArray[np.uint8], points: FloatArray, out: FloatArray, reach: float, beyond: float
) -> FloatArray:
    """How far to move each point of a lid outwards, to where the white of the eye ends.

    Arguments and result as for dark_line; ``out`` points out of the eye, and ``beyond`` is a
    distance in pixels to go past the edge.
    """
    offsets, profile = _profiles(luma, points, out, reach)
    edge = np.abs(np.gradient(profile, axis=1))
    score = edge * np.exp(-0.5 * (offsets / reach) ** 2) * (offsets > -1.5)
    found = offsets[np.argmax(score, axis=1)] + beyond
    return np.maximum(_smooth_curve(found, edge.max(axis=1)), 0.0)


def _profiles(
    luma: NDArray[np.uint8], points: FloatArray, down: FloatArray, reach: float
) -> tuple[FloatArray, FloatArray]:
    """Luma across each point: offsets of shape (m,), values of shape (n, m)."""
    offsets = np.linspace(-reach, reach, 2 * max(int(2 * reach), 4) + 1)
    at = points[:, np.newaxis] + offsets[:, np.newaxis] * down
    soft = cv2.GaussianBlur(luma, (0, 0), 0.8).astype(np.float32)
    at = at.astype(np.float32)
    x, y = np.ascontiguousarray(at[..., 0]), np.ascontiguousarray(at[..., 1])
    values = cv2.remap(soft, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return offsets, values.astype(np.float64)


def _smooth_curve(offsets: FloatArray, trust: FloatArray) -> FloatArray:
    """Least-squares curve (1 − u²)(a + bu) through offsets; u runs from −1 to 1."""
    u = np.linspace(-1, 1, len(offsets))
    basis = (1 - u**2)[:, np.newaxis] * np.stack([np.ones_like(u), u], axis=1)
    weight = np.sqrt((trust + 1e-6) * (1 - u**2))[:, np.newaxis]
    ridge = 0.05 * float(weight.mean()) * np.eye(2)
    matrix = np.vstack([basis * weight, ridge])
    target = np.concatenate([offsets * weight[:, 0], np.zeros(2)])
    solution = np.linalg.lstsq(matrix, target, rcond=None)[0]
    return np.asarray(basis @ solution, np.float64)
