"""Frames, looked at through the face mesh: what is asked for is what is seen."""

from __future__ import annotations

import cv2
import drawn_faces
import numpy as np
import pytest
from avatar_kit import (
    FPS,
    SIZE,
    drawn_rig,
    faces,
    frames_of,
    hum,
    lip_gap,
    mesh,
    png,
    portrait_bytes,
    request,
    silence,
    spoken,
)
from numpy.typing import NDArray
from shared_data import shared

from e3rg.emotions.types import Delivery, Expression
from e3rg.errors import E3RGError
from e3rg.stages.avatar.expression import expression_weights
from e3rg.stages.avatar.motion import STILL, pose
from e3rg.stages.avatar.portrait import frame_portrait
from e3rg.stages.avatar.render import Renderer
from e3rg.stages.avatar.rig import Rig, build_rig
from e3rg.stages.avatar.visemes import REST, Mouth, mouth_track
from e3rg.stages.avatar.weights import frame_weights


@pytest.fixture(scope="module")
def photo() -> Rig:
    data = shared("portrait_astronaut.png").read_bytes()
    return build_rig(frame_portrait(data, faces(), SIZE))


def test_a_split_turn_gives_the_same_frames() -> None:
    rig, phonemes = drawn_rig(), spoken("wɪljutɛlmimɔɹəbaʊtɪt", each=0.1)
    happy, sad = Delivery(Expression.HAPPY, 0.8), Delivery(Expression.SAD, 0.8)
    audio = hum(50)
    whole = frames_of(rig, request(audio, phonemes, delivery=happy, previous=sad))
    half = len(audio.data) // 2
    first = request(
        type(audio)(audio.data[:half], audio.sample_rate), phonemes, delivery=happy, previous=sad
    )
    later = tuple(type(p)(p.symbol, p.start - 1.0, p.end - 1.0) for p in phonemes)
    second = request(
        type(audio)(audio.data[half:], audio.sample_rate),
        later,
        delivery=happy,
        previous=happy,
        first_frame=25,
    )
    parts = frames_of(rig, first) + frames_of(rig, second)
    assert len(whole) == len(parts) == 50
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))
    assert not np.array_equal(whole[0], whole[49])


def test_mouth_is_closed_and_still_in_silence() -> None:
    frames = frames_of(drawn_rig(), request(silence(50)))
    gaps = [lip_gap(frame) for frame in frames[::7]]
    assert max(gaps) < 0.06
    assert max(gaps) - min(gaps) < 0.02


def test_mouth_opens_on_vowels_and_closes_on_m() -> None:
    phonemes = spoken("ɑmɑ", each=0.32)
    frames = frames_of(drawn_rig(), request(hum(24), phonemes))
    assert lip_gap(frames[4]) > 0.15
    assert lip_gap(frames[20]) > 0.15
    assert lip_gap(frames[12]) < 0.06


@pytest.mark.parametrize("expression", Expression)
def test_lips_meet_on_m_whatever_the_face_shows(expression: Expression, photo: Rig) -> None:
    (shape,) = mouth_track(spoken("m", each=0.04), hum(1), 1, FPS)
    mouth = Mouth(*shape.tolist())
    for rig in (photo, drawn_rig()):
        weights = frame_weights(
            expression_weights(Delivery(expression, 1.0)), mouth, STILL, rig.smile
        )
        apart = rig.lip_lower.moved(weights)[:, 1] - rig.lip_upper.moved(weights)[:, 1]
        assert apart.max() < 0.02 * rig.face.unit


def test_a_photograph_with_teeth_can_close_its_mouth(photo: Rig) -> None:
    frames = frames_of(photo, request(silence(3)))
    assert lip_gap(frames[0]) < 0.06
    spoken_frames = frames_of(photo, request(hum(10), spoken("ɑ", each=0.4)))
    assert lip_gap(spoken_frames[5]) > 0.15


def test_eyes_blink() -> None:
    # The mesh net hardly sees a lid move, so this looks at the pixels: a shut lid hides the iris.
    rig = drawn_rig()
    frame = next(n for n in range(1000) if pose(7, n, FPS).blink == 1.0)
    for eye in rig.eyes:
        outline = np.concatenate([eye.upper.points, eye.lower.points])
        (left, top), (right, bottom) = (
            outline.min(axis=0).astype(int),
            outline.max(axis=0).astype(int),
        )

        def iris(n: int, box: tuple[int, int, int, int] = (left, top, right, bottom)) -> float:
            image = frames_of(rig, request(silence(1), first_frame=n))[0]
            part = image[box[1] : box[3], box[0] : box[2]]
            middle = part[: len(part) * 2 // 3, part.shape[1] // 3 : part.shape[1] * 2 // 3]
            return float((middle < 90).mean())

        assert iris(frame - 12) > 0.25
        assert iris(frame) < 0.5 * iris(frame - 12)


def test_expressions_move_the_mouth_and_the_brows(photo: Rig) -> None:
    def shown(rig: Rig, expression: Expression) -> NDArray[np.uint8]:
        return frames_of(rig, request(silence(1), delivery=Delivery(expression, 0.8)))[0]

    def corners(expression: Expression) -> float:
        """Height of the mouth's corners over the lower lip's middle."""
        points = mesh(shown(photo, expression))
        return float(points[17, 1] - points[[61, 291], 1].mean())

    happy, neutral, sad = map(corners, (Expression.HAPPY, Expression.NEUTRAL, Expression.SAD))
    assert happy > neutral + 0.03
    assert sad < neutral - 0.03

    def inner_brow(expression: Expression) -> float:
        """Row of the inner third of the drawn brow: the dark pixels above the eye."""
        frame = shown(drawn_rig(), expression)
        strip = frame[165:222, 222:242] < 110
        return float(np.nonzero(strip)[0].mean())

    neutral = inner_brow(Expression.NEUTRAL)
    for raised in (Expression.SAD, Expression.SURPRISED, Expression.FEAR, Expression.CONCERNED):
        assert inner_brow(raised) < neutral - 3
    for lowered in (Expression.ANGRY, Expression.DISGUSTED):
        assert inner_brow(lowered) > neutral + 3


def test_every_expression_is_told_from_every_other() -> None:
    rig = drawn_rig()
    pictures = [
        frames_of(rig, request(silence(1), delivery=Delivery(e, 0.8)))[0][:SIZE].astype(float)
        for e in Expression
    ]
    for i, one in enumerate(pictures):
        for other in pictures[:i]:
            assert np.abs(one - other).max() > 40


def test_background_stands_still_and_nothing_tears() -> None:
    frames = [f[:SIZE].astype(int) for f in frames_of(drawn_rig(), request(silence(30)))]
    corner = [f[:40, :40] for f in frames]
    assert all(np.array_equal(corner[0], c) for c in corner)
    # Nothing moves by more than a little from one frame to the next, blinks apart.
    calm = [n for n in range(1, 30) if pose(7, n, FPS).blink == pose(7, n - 1, FPS).blink == 0]
    assert max(float(np.abs(frames[n] - frames[n - 1]).mean()) for n in calm) < 1.0


def test_the_extreme_pose_stays_a_picture() -> None:
    rig = drawn_rig()
    mouth = Mouth(1, 1, 1, 1, 1, -1, 1)
    weights = frame_weights(np.ones(len(rig.upper), np.float32), mouth, STILL, 1.0)
    frame = Renderer(rig).render(weights, mouth, STILL)
    assert frame.shape == (SIZE * 3 // 2, SIZE)
    assert frame.dtype == np.uint8


@pytest.mark.parametrize("shape", [(300, 700), (900, 420), (1600, 1600)])
def test_any_shape_is_framed_around_the_face(shape: tuple[int, int]) -> None:
    height, width = shape
    side = min(height, width)
    canvas = np.full((height, width, 3), 90, np.uint8)
    top, left = (height - side) // 2, (width - side) // 2
    canvas[top : top + side, left : left + side] = drawn_faces.face(size=side)
    framed = frame_portrait(png(canvas), faces(), SIZE)
    assert framed.image.shape == (SIZE, SIZE, 3)
    box = faces().detect(framed.image)[0]
    centre = (box.left + box.right) / 2
    assert abs(centre - SIZE / 2) < 0.12 * SIZE
    assert 0.25 < box.height / SIZE < 0.75


def test_a_picture_without_a_face_is_refused() -> None:
    blank = png(np.full((300, 300, 3), 128, np.uint8))
    with pytest.raises(E3RGError) as caught:
        frame_portrait(blank, faces(), SIZE)
    assert (caught.value.code, caught.value.param) == ("portrait_no_face", "portrait")


def test_rest_is_close_to_the_portrait() -> None:
    portrait = frame_portrait(portrait_bytes(), faces(), SIZE)
    rig = drawn_rig()
    frame = Renderer(rig).render(
        frame_weights(np.zeros(len(rig.upper), np.float32), REST, STILL, rig.smile), REST, STILL
    )
    original = cv2.cvtColor(portrait.image, cv2.COLOR_BGR2YUV_I420)
    assert cv2.PSNR(original, frame) > 34
