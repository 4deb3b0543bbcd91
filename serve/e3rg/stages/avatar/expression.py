"""What each expression does to the face: action units of FACS (Ekman and Friesen 1978)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from e3rg.emotions.types import Delivery, Expression
from e3rg.stages.avatar.fields import CONTROLS, INDEX

FloatArray = NDArray[np.floating[Any]]

CHANGE_S = 0.4
"""Seconds that one expression takes to become another."""

# Weights at intensity 1.
_POSES: dict[Expression, dict[str, float]] = {
    Expression.NEUTRAL: {},
    # AU6 + 12
    Expression.HAPPY: {
        "corner_right": 1.25, "corner_left": 1.25, "width": 0.5, "cheek": 1.2, "squint": 0.8,
        "unsmile": -1.0, "brow_outer": 0.15, "thick_upper": -0.25,
    },
    # AU1 + 2 + 5 + 26
    Expression.SURPRISED: {
        "brow_inner": 1.1, "brow_outer": 1.35, "lid": -0.34, "jaw": 0.52, "width": -0.5,
    },
    # AU4 + 5 + 7 + 23
    Expression.ANGRY: {
        "brow_lower": 1.55, "brow_squeeze": 1.35, "brow_outer": 0.3, "squint": 0.5, "lid": -0.1,
        "thick_upper": -0.6, "thick_lower": -0.5, "corner_right": -0.55, "corner_left": -0.55,
        "nose": 0.5, "chin": 0.7,
    },
    # AU1 + 2 + 4 + 5 + 20 + 26
    Expression.FEAR: {
        "brow_inner": 1.2, "brow_outer": 0.45, "brow_squeeze": 0.9, "lid": -0.30, "width": 0.55,
        "jaw": 0.14, "lower": 0.45, "corner_right": -0.25, "corner_left": -0.25,
    },
    # AU1 + 4 + 15 + 17
    Expression.SAD: {
        "brow_inner": 1.15, "brow_outer": -0.45, "brow_squeeze": 0.5, "lid": 0.20,
        "corner_right": -1.0, "corner_left": -1.0, "width": -0.15, "chin": 0.8,
        "thick_lower": 0.2,
    },
    # AU9 + 10 + 15 + 4
    Expression.DISGUSTED: {
        "nose": 1.7, "upper": 0.8, "brow_lower": 1.25, "brow_squeeze": 0.8, "squint": 1.0,
        "cheek": 0.6, "corner_right": -0.6, "corner_left": -0.6, "chin": 0.5,
    },
    # AU12 + 14 on one side
    Expression.CONTEMPT: {
        "corner_left": 0.9, "corner_right": -0.15, "squint": 0.35, "lid": 0.14, "cheek": 0.15,
        "brow_outer": 0.15, "thick_upper": -0.2,
    },
    # AU1 + 4, weak 15
    Expression.CONCERNED: {
        "brow_inner": 0.85, "brow_squeeze": 0.6, "brow_outer": -0.15, "lid": 0.06,
        "corner_right": -0.35, "corner_left": -0.35, "squint": 0.15,
    },
}  # fmt: skip


def expression_weights(delivery: Delivery) -> FloatArray:
    """Control weights of an expression, shape (controls,)."""
    weights = np.zeros(len(CONTROLS), np.float32)
    strength = min(max(delivery.intensity, 0.0), 1.0)
    for name, value in _POSES[delivery.expression].items():
        weights[INDEX[name]] = strength * value
    return weights


def expression_track(
    delivery: Delivery, previous: Delivery | None, frames: int, fps: int
) -> FloatArray:
    """Weights frame by frame, eased from the segment's start.

    Returns:
        Shape (frames, controls).
    """
    target = expression_weights(delivery)
    if previous is None:
        return np.tile(target, (frames, 1))
    start = expression_weights(previous)
    t = np.clip((np.arange(frames) + 1) / fps / CHANGE_S, 0, 1)
    ease = (t * t * (3 - 2 * t)).astype(np.float32)[:, np.newaxis]
    return np.asarray(start + (target - start) * ease, np.float32)
