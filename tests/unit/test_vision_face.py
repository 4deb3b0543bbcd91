"""Faces are found in drawings and photographs of any size, and the mesh lies on them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
from drawn_faces import face
from numpy.typing import NDArray
from shared_data import shared

from e3rg.config import model_dir
from e3rg.models.store import ModelStore
from e3rg.vision.face import FaceFinder, decode_image

Image = NDArray[np.uint8]


@pytest.fixture(scope="module")
def finder() -> FaceFinder:
    return FaceFinder.load(ModelStore(model_dir()))


def scaled(image: Image, side: int) -> Image:
    return cv2.resize(image, (side, side), interpolation=cv2.INTER_AREA).astype(np.uint8)


def turned(image: Image, degrees: float) -> Image:
    centre = (image.shape[1] / 2, image.shape[0] / 2)
    matrix = cv2.getRotationMatrix2D(centre, -degrees, 1)
    border = cv2.BORDER_REPLICATE
    return cv2.warpAffine(image, matrix, image.shape[1::-1], borderMode=border).astype(np.uint8)


@pytest.mark.parametrize("side", [96, 200, 512, 1600])
def test_one_drawn_face_at_any_size(finder: FaceFinder, side: int) -> None:
    faces = finder.detect(scaled(face(), side))
    assert len(faces) == 1
    (found,) = faces
    assert found.width / side == pytest.approx(0.46, abs=0.08)
    assert (found.left + found.right) / 2 / side == pytest.approx(0.5, abs=0.04)
    eyes = found.keypoints[:2, 0] / side
    assert eyes == pytest.approx([207 / 512, 305 / 512], abs=0.03)  # subject's right eye first


def test_face_that_fills_the_picture(finder: FaceFinder) -> None:
    assert len(finder.detect(np.ascontiguousarray(face()[120:400, 140:372]))) == 1


def test_small_face_in_a_large_picture(finder: FaceFinder) -> None:
    wall = np.full((1500, 2000, 3), (120, 130, 125), np.uint8)
    wall[1100:1260, 1500:1660] = scaled(face(), 160)
    (found,) = finder.detect(wall)
    assert (found.left + found.right) / 2 == pytest.approx(1580, abs=8)
    assert (found.top + found.bottom) / 2 == pytest.approx(1100 + 0.576 * 160, abs=8)


def test_every_face_is_found_largest_first(finder: FaceFinder) -> None:
    image = np.hstack([face("smile"), face()])
    image[:128, 448:576] = scaled(face("open"), 128)
    faces = finder.detect(image)
    assert len(faces) == 3
    assert faces[0].width * faces[0].height >= faces[2].width * faces[2].height
    assert faces[2].width < 80


def test_nothing_where_there_is_no_face(finder: FaceFinder) -> None:
    grain = np.random.default_rng(1).integers(0, 256, (400, 600, 3), dtype=np.uint8)
    shirt = face()[420:]
    for image in (grain, shirt, np.zeros((512, 512, 3), np.uint8), np.zeros((1, 1, 3), np.uint8)):
        assert finder.detect(np.ascontiguousarray(image)) == []


def test_mesh_lies_on_the_drawn_features(finder: FaceFinder) -> None:
    image = face()
    mesh = finder.mesh(image, finder.detect(image)[0])
    assert mesh.landmarks.shape == (468, 3)
    assert mesh.presence > 0.9
    # MediaPipe: 33 and 263 outer eye corners, 61 and 291 mouth corners, 152 chin, 1 nose tip.
    drawn = {33: (179, 240), 263: (333, 240), 61: (214, 350), 291: (298, 350), 152: (256, 410)}
    for index, place in drawn.items():
        assert mesh.landmarks[index, :2] == pytest.approx(place, abs=16), index
    assert mesh.landmarks[1, 2] < mesh.landmarks[152, 2]  # the nose is nearer than the chin


@pytest.mark.parametrize("degrees", [-60, -20, 20, 60])
def test_roll_follows_the_picture(finder: FaceFinder, degrees: float) -> None:
    image = turned(face(), degrees)
    mesh = finder.mesh(image, finder.detect(image)[0])
    assert mesh.roll == pytest.approx(degrees, abs=6)


def test_frontal_face_is_frontal_and_yaw_has_a_sign(finder: FaceFinder) -> None:
    image = face()
    mesh = finder.mesh(image, finder.detect(image)[0])
    assert abs(mesh.yaw) < 8
    assert abs(mesh.pitch) < 10
    narrow = image.copy()  # squeeze the half at the picture's right, as if the head turned there
    narrow[:, 256:420] = cv2.resize(image[:, 256:], (164, 512))
    narrow[:, 420:] = image[:, 511:512]
    assert finder.mesh(narrow, finder.detect(narrow)[0]).yaw > mesh.yaw + 5


def test_mirrored_photograph_mirrors_the_pose(finder: FaceFinder) -> None:
    image = decode_image(shared("portrait_astronaut.png").read_bytes())
    (found,) = finder.detect(image)
    mesh = finder.mesh(image, found)
    mirror = np.ascontiguousarray(image[:, ::-1])
    (other,) = finder.detect(mirror)
    back = finder.mesh(mirror, other)
    assert back.yaw == pytest.approx(-mesh.yaw, abs=4)
    assert back.roll == pytest.approx(-mesh.roll, abs=3)
    assert 512 - back.landmarks[1, 0] == pytest.approx(mesh.landmarks[1, 0], abs=4)


def test_threads_take_turns(finder: FaceFinder) -> None:
    images = [face("smile"), face("open")] * 4
    alone = [finder.detect(image)[0].keypoints for image in images]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda image: finder.detect(image)[0].keypoints, images))
    assert all((a == b).all() for a, b in zip(alone, together, strict=True))
