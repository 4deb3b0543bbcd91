"""Expressions are told apart; a picture without a face says nothing."""

from __future__ import annotations

import threading

import cv2
import numpy as np
import pytest
from drawn_faces import face
from numpy.typing import NDArray
from shared_data import shared

from e3rg.config import model_dir
from e3rg.emotions.types import Category, ModalityScore
from e3rg.models.store import ModelStore
from e3rg.stages.understanding.face_emotion import ACCURACY, FaceEmotion

WALL = np.full((200, 200, 3), 128, np.uint8)


@pytest.fixture(scope="module")
def model() -> FaceEmotion:
    return FaceEmotion.load(ModelStore(model_dir()))


def jpeg(image: NDArray[np.uint8]) -> bytes:
    return cv2.imencode(".jpg", image)[1].tobytes()


def top(score: ModalityScore | None) -> Category:
    assert score is not None
    assert sum(score.categories.values()) == pytest.approx(1)
    assert set(score.categories) == set(Category)
    assert 0 < score.confidence <= ACCURACY
    return max(score.categories, key=lambda each: score.categories[each])


@pytest.mark.parametrize(
    ("mouth", "category"),
    [
        ("neutral", Category.NEUTRAL),
        ("smile", Category.HAPPY),
        ("open", Category.SURPRISED),
    ],
)
def test_drawn_expressions(model: FaceEmotion, mouth: str, category: Category) -> None:
    assert top(model.recognize([jpeg(face(mouth))])) is category


def test_smile_of_a_photograph_mirrored_and_turned(model: FaceEmotion) -> None:
    image = cv2.imread(str(shared("portrait_astronaut.png")))
    turn = cv2.getRotationMatrix2D((225, 128), 25, 1)
    for view in (image, image[:, ::-1], cv2.warpAffine(image, turn, (512, 512))):
        score = model.recognize([jpeg(np.ascontiguousarray(view))])
        assert top(score) is Category.HAPPY
        assert score is not None
        assert score.confidence > 0.4


def test_no_face_no_opinion(model: FaceEmotion) -> None:
    assert model.recognize([]) is None
    assert model.recognize([jpeg(WALL), b"not a picture", b""]) is None


def test_frames_are_averaged_and_empty_ones_lower_the_confidence(model: FaceEmotion) -> None:
    smile, wonder = jpeg(face("smile")), jpeg(face("open"))
    alone = model.recognize([smile])
    mixed = model.recognize([smile, wonder])
    rare = model.recognize([smile, jpeg(WALL), b"broken", jpeg(WALL)])
    assert alone is not None
    assert mixed is not None
    assert rare is not None
    assert mixed.confidence < alone.confidence
    assert mixed.categories[Category.HAPPY] > 0.2
    assert mixed.categories[Category.SURPRISED] > 0.2
    assert rare.confidence == pytest.approx(alone.confidence / 4)
    assert rare.categories == alone.categories


def test_small_faces_are_trusted_less(model: FaceEmotion) -> None:
    large, small = (
        model.recognize([jpeg(face("smile"))]),
        model.recognize([jpeg(face("smile", 90))]),
    )
    assert large is not None
    assert small is not None
    assert small.confidence < large.confidence


def test_stops_between_frames(model: FaceEmotion) -> None:
    stop = threading.Event()
    stop.set()
    assert model.recognize([jpeg(face("smile"))] * 8, stop) is None
