"""Folds of the skin, as shading: a warp moves skin but never creases it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from e3rg.stages.avatar.fields import INDEX
from e3rg.stages.avatar.landmarks import BROWS_LOWER, BROWS_UPPER, NOSE_SIDES, FaceFrame

FloatArray = NDArray[np.floating[Any]]

FOLDS = ("frown", "socket", "smile", "nose")

_MOUTH_CORNERS = (61, 291)
_BRIDGE = (168, 6)


def fold_maps(landmarks: FloatArray, face: FaceFrame, points: FloatArray) -> FloatArray:
    """How much each fold darkens each point at full strength, as a share of its luma.

    Args:
        landmarks: shape (468, 3).
        face: measures.
        points: shape (..., 2), pixels.

    Returns:
        Shape (folds, ...), 0 to about 0.4.
    """
    xy = landmarks[:, :2]

    def at(*index: int) -> FloatArray:
        return np.asarray(xy[list(index)].mean(axis=0))

    inner = [at(BROWS_UPPER[side][4], BROWS_LOWER[side][4]) for side in (0, 1)]
    middle = (inner[0] + inner[1]) / 2
    down = face.axes[1] * face.unit
    frown = sum(
        _line(points, start - 0.06 * down, start + 0.12 * down, 0.030 * face.unit)
        for start in (middle + 0.42 * (end - middle) for end in inner)
    )
    socket = sum(
        _line(points, end + 0.07 * down, end + 0.17 * down, 0.10 * face.unit) for end in inner
    )
    smile = np.zeros(points.shape[:-1])
    wings = np.zeros_like(smile)
    for nose, corner in zip(NOSE_SIDES, _MOUTH_CORNERS, strict=True):
        out = (xy[corner] - at(*_MOUTH_CORNERS)) * 0.28
        bend = 0.5 * xy[nose] + 0.5 * xy[corner] + out
        smile = np.maximum(smile, _line(points, xy[nose], bend, 0.05 * face.unit))
        smile = np.maximum(smile, _line(points, bend, xy[corner] + 0.9 * out, 0.05 * face.unit))
        wings = np.maximum(wings, _line(points, xy[nose] - 0.05 * down, bend, 0.05 * face.unit))
    bridge = at(*_BRIDGE)
    across = 0.09 * face.unit * face.axes[0]
    creases = sum(
        _line(points, bridge + y * down - across, bridge + y * down + across, 0.020 * face.unit)
        for y in (-0.03, 0.03, 0.09)
    )
    return np.stack([0.22 * frown, 0.20 * socket, 0.11 * smile, 0.10 * creases + 0.11 * wings])


def fold_strengths(weights: FloatArray) -> FloatArray:
    """Strength of each fold under an expression's control weights, shape (folds,)."""

    def w(name: str) -> float:
        return max(float(weights[INDEX[name]]), 0.0)

    return np.array(
        [
            0.8 * w("brow_squeeze") * min(1.0, w("brow_lower") + 0.5),
            w("brow_lower"),
            0.35 * (w("corner_right") + w("corner_left")) + 0.3 * w("cheek"),
            w("nose"),
        ],
        np.float32,
    ).clip(0, 1.3)


def _line(points: FloatArray, start: FloatArray, end: FloatArray, width: float) -> FloatArray:
    """A soft line: Gaussian of the distance from a segment, fading towards its ends."""
    along = end - start
    length = float(along @ along)
    t = np.clip(((points - start) @ along) / length, 0, 1)
    distance = np.linalg.norm(points - start - t[..., np.newaxis] * along, axis=-1)
    fade = 1 - 0.6 * np.abs(2 * t - 1) ** 3
    return np.asarray(fade * np.exp(-((distance / width) ** 2)))
