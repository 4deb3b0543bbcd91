"""How expression, speech and pose add up to the weights of a frame's controls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from e3rg.stages.avatar.fields import INDEX
from e3rg.stages.avatar.motion import Pose
from e3rg.stages.avatar.rig import rest_weights
from e3rg.stages.avatar.visemes import Mouth

FloatArray = NDArray[np.floating[Any]]


def frame_weights(expression: FloatArray, mouth: Mouth, pose: Pose, smile: float) -> FloatArray:
    """Control weights of a frame: expression, speech and pose added up.

    Args:
        expression: shape (controls,).
        mouth: mouth shape.
        pose: head pose.
        smile: 0 to 1, how much the portrait smiles by itself (Rig.smile).
    """
    w = rest_weights() + expression
    # Happiness first gives a smiling portrait its own smile back; little is to be added to that.
    for name in ("corner_right", "corner_left", "width"):
        if w[INDEX[name]] > 0:
            w[INDEX[name]] *= 1 - 0.75 * smile
    # Speech takes the lips over from the expression while they are busy.
    busy = min(1.0, max(mouth.press, mouth.pucker, 1.5 * mouth.jaw))
    for name in ("jaw", "upper", "lower", "thick_upper", "thick_lower"):
        w[INDEX[name]] *= 1 - 0.7 * busy
    # Nothing keeps the lips of an m apart.
    apart = 1 - min(1.0, mouth.press / 0.6)
    for name in ("jaw", "upper", "lower"):
        w[INDEX[name]] *= apart
    corners = min(1.0, 0.45 * mouth.pucker + 0.4 * mouth.jaw)
    for name in ("corner_right", "corner_left"):
        w[INDEX[name]] *= 1 - corners
    w[INDEX["jaw"]] += mouth.jaw
    w[INDEX["width"]] += 0.8 * mouth.width - 0.5 * mouth.pucker
    w[INDEX["upper"]] += mouth.upper
    w[INDEX["lower"]] += mouth.lower
    w[INDEX["thick_upper"]] += 1.0 * mouth.pucker - 0.8 * mouth.press
    w[INDEX["thick_lower"]] += 1.0 * mouth.pucker - 0.8 * mouth.press + 0.6 * min(mouth.lower, 0)
    w[INDEX["purse"]] += mouth.pucker
    w[INDEX["yaw"]] += pose.yaw
    w[INDEX["pitch"]] += pose.pitch
    w[INDEX["breath"]] += pose.breath
    # A lid that the expression already lowers has less way to go.
    lid = w[INDEX["lid"]]
    w[INDEX["lid"]] = lid + (1 - lid) * pose.blink
    w[INDEX["squint"]] *= 1 - pose.blink
    return w
