"""Motion and expression: pure functions of seed and frame, small, and alive."""

from __future__ import annotations

import numpy as np
import pytest
from avatar_kit import FPS, NEUTRAL

from e3rg.emotions.types import Delivery, Expression
from e3rg.stages.avatar.expression import expression_track, expression_weights
from e3rg.stages.avatar.motion import pose


def test_a_pose_depends_on_seed_and_frame_alone() -> None:
    forwards = [pose(5, frame, FPS) for frame in range(200)]
    assert [pose(5, frame, FPS) for frame in reversed(range(200))] == forwards[::-1]
    assert [pose(6, frame, FPS) for frame in range(200)] != forwards


@pytest.mark.parametrize("seed", [0, 1, -3, 2**63, 12345678901234567890])
def test_motion_is_small_and_smooth(seed: int) -> None:
    poses = [pose(seed, frame, FPS) for frame in range(60 * FPS)]
    for name, reach, step in (("x", 0.06, 0.006), ("y", 0.03, 0.005), ("yaw", 0.06, 0.009)):
        values = np.array([getattr(p, name) for p in poses])
        assert np.abs(values).max() <= reach
        assert np.abs(np.diff(values)).max() <= step
        assert values.std() > 0.1 * reach


def test_blinks_come_at_a_human_rate_and_shut_the_eyes() -> None:
    closed = np.array([pose(3, frame, FPS).blink for frame in range(120 * FPS)])
    blinks = int((np.diff((closed > 0.5).astype(int)) == 1).sum())
    assert 20 <= blinks <= 60
    assert closed.max() == 1.0
    assert (closed == 0).mean() > 0.8


def test_expression_changes_smoothly_in_under_half_a_second() -> None:
    sad, happy = Delivery(Expression.SAD, 0.8), Delivery(Expression.HAPPY, 0.8)
    track = expression_track(happy, sad, 20, FPS)
    assert np.allclose(track[10:], expression_weights(happy))
    assert np.abs(track[0] - expression_weights(sad)).max() < 0.15
    assert np.abs(np.diff(track, axis=0)).max() < 0.4
    assert np.array_equal(expression_track(happy, None, 3, FPS)[0], expression_weights(happy))


def test_intensity_scales_an_expression_and_neutral_is_none() -> None:
    assert not expression_weights(Delivery(Expression.NEUTRAL, 1.0)).any()
    assert not expression_weights(Delivery(Expression.ANGRY, 0.0)).any()
    half, full = (expression_weights(Delivery(Expression.ANGRY, i)) for i in (0.5, 1.0))
    assert np.allclose(2 * half, full)
    assert NEUTRAL.intensity == 0.0
