"""Faces in a picture: where they are, their 468-point mesh, and how the head is turned.

Models: BlazeFace short and full range (Bazarevsky et al. 2019, arXiv 1907.05047) and Face Mesh
(Kartynnik et al. 2019, arXiv 1907.06724), as published with MediaPipe under Apache-2.0, run by
LiteRT. Landmark numbers are MediaPipe's canonical face mesh.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from e3rg.models.store import ModelStore
from e3rg.vision.blazeface import MIN_SCORE, Detector, FaceBox, inside, suppress, tiles
from e3rg.vision.crops import sample, square
from e3rg.vision.image import decode_image, image_size
from e3rg.vision.litert import ImageNet, sigmoid

__all__ = ["FaceBox", "FaceFinder", "FaceMesh", "decode_image", "image_size"]

MODEL_FILES = (
    "vision/face_detection_short_range.tflite",
    "vision/face_detection_full_range.tflite",
    "vision/face_landmark.tflite",
)

# The short-range net wants the whole head in view: a border lets it see a face that fills the
# picture. The full-range net finds faces down to about 1/20 of its view; tiles reach smaller ones.
_BORDER = 0.35
_ROI_SCALE = 1.5
_MESH_PASSES = 4
_SETTLED = 0.1  # radians

_RIGHT_EYE, _LEFT_EYE = 33, 263  # outer corners, the subject's right and left
_FOREHEAD, _CHIN = 10, 152
# Degrees; foreheads slope back. Measured on level heads, 5 rendered and 2 photographed: -4 to -11.
_LEVEL_PITCH = -8.0
# Pairs (subject's right, subject's left) whose mean direction is the head's left-right axis.
_PAIRS = ((33, 263), (133, 362), (234, 454), (127, 356), (61, 291))


@dataclass(frozen=True, slots=True)
class FaceMesh:
    """The mesh of one face.

    Attributes:
        landmarks: shape (468, 3): x and y in pixels of the picture, z (depth, smaller is nearer)
            on the same scale.
        presence: 0 to 1, that there is a face under the mesh.
        yaw: degrees, positive when the nose points to the picture's right.
        pitch: degrees, positive when the nose points up.
        roll: degrees, positive when the head leans clockwise in the picture.
    """

    landmarks: NDArray[np.float32]
    presence: float
    yaw: float
    pitch: float
    roll: float


class FaceFinder:
    """Finds faces; safe to call from several threads, which then take turns."""

    def __init__(self, short_range: str, full_range: str, mesh: str, threads: int = 1) -> None:
        self._short = Detector(short_range, threads, layers=((8, 2), (16, 6)))
        self._full = Detector(full_range, threads, layers=((4, 1),))
        self._mesh = ImageNet(mesh, threads)
        self._lock = threading.Lock()

    @classmethod
    def load(cls, models: ModelStore, threads: int = 1) -> Self:
        """Load the three nets from the model cache."""
        short, full, mesh = (str(models.path(name)) for name in MODEL_FILES)
        return cls(short, full, mesh, threads)

    def detect(self, image_bgr: NDArray[np.uint8], *, small: bool = True) -> list[FaceBox]:
        """Find all faces, the largest first.

        Args:
            image_bgr: shape (height, width, 3), any size.
            small: search a large picture part by part too, for faces under 1/20 of its side.
        """
        height, width = image_bgr.shape[:2]
        whole = (0.0, 0.0, float(width), float(height))
        border = _BORDER * max(width, height)
        wide = (-border, -border, width + border, height + border)
        with self._lock:
            found = self._short.detect(image_bgr, whole)
            found += self._short.detect(image_bgr, wide)
            found += self._full.detect(image_bgr, whole)
            for tile in tiles(width, height) if small else ():
                found += [box for box in self._full.detect(image_bgr, tile) if inside(box, tile)]
            boxes = suppress(found)
            # Textures now and then excite a detector; the mesh net knows a face better.
            faces = [box for box in boxes if self._landmarks(image_bgr, _roi(box))[1] >= MIN_SCORE]
        return sorted(faces, key=lambda box: box.width * box.height, reverse=True)

    def mesh(self, image_bgr: NDArray[np.uint8], face: FaceBox) -> FaceMesh:
        """Fit the mesh to a detected face."""
        with self._lock:
            landmarks, presence = self._landmarks(image_bgr, _roi(face))
            angle = _roi(face)[3]
            for _ in range(_MESH_PASSES):
                if presence < MIN_SCORE:
                    break
                # A crop placed by the mesh itself is steadier than one placed by the detector,
                # which misjudges the angle of a head that lies on its side.
                roi = _roi_of_mesh(landmarks)
                landmarks, presence = self._landmarks(image_bgr, roi)
                turned, angle = abs(roi[3] - angle), roi[3]
                if turned < _SETTLED:
                    break
        yaw, pitch, roll = head_pose(landmarks)
        return FaceMesh(landmarks, presence, yaw, pitch, roll)

    def _landmarks(
        self, image: NDArray[np.uint8], roi: tuple[float, float, float, float]
    ) -> tuple[NDArray[np.float32], float]:
        cx, cy, side, angle = roi
        size = self._mesh.size
        to_picture = square(cx, cy, side, angle, size)
        crop = sample(image, to_picture, size)
        raw, score = self._mesh.run(crop.astype(np.float32) / 255.0)
        points = raw.reshape(468, 3)
        placed = np.empty_like(points)
        placed[:, :2] = points[:, :2] @ to_picture[:, :2].T + to_picture[:, 2]
        placed[:, 2] = points[:, 2] * (side / size)
        return placed, float(sigmoid(score.reshape(-1)[:1])[0])


def head_pose(landmarks: NDArray[np.float32]) -> tuple[float, float, float]:
    """Yaw, pitch and roll in degrees (see FaceMesh) of a mesh of shape (468, 3).

    The head's axes are read off the mesh: between mirrored landmarks, and from chin to forehead,
    less the slope that this line has in a level head.
    """
    points = landmarks.astype(np.float64)
    across = np.mean([_unit(points[left] - points[right]) for right, left in _PAIRS], axis=0)
    x = _unit(across)
    down = points[_CHIN] - points[_FOREHEAD]
    y = _unit(down - x * (down @ x))
    z = np.cross(x, y)  # into the picture, away from the viewer
    nose = -z
    yaw = np.degrees(np.arctan2(nose[0], -nose[2]))
    pitch = np.degrees(np.arcsin(np.clip(-nose[1], -1.0, 1.0)))
    roll = np.degrees(np.arctan2(x[1], x[0]))
    return float(yaw), float(pitch) - _LEVEL_PITCH, float(roll)


def _roi(face: FaceBox) -> tuple[float, float, float, float]:
    """Centre, side and angle (radians) of the square that the mesh net wants to see."""
    eye = face.keypoints[1] - face.keypoints[0]
    return (
        (face.left + face.right) / 2,
        (face.top + face.bottom) / 2,
        max(face.width, face.height) * _ROI_SCALE,
        float(np.arctan2(eye[1], eye[0])),
    )


def _roi_of_mesh(landmarks: NDArray[np.float32]) -> tuple[float, float, float, float]:
    eye = landmarks[_LEFT_EYE, :2] - landmarks[_RIGHT_EYE, :2]
    angle = float(np.arctan2(eye[1], eye[0]))
    cos, sin = np.cos(angle), np.sin(angle)
    upright = np.array([[cos, sin], [-sin, cos]])
    points = landmarks[:, :2] @ upright.T
    low, high = points.min(axis=0), points.max(axis=0)
    cx, cy = upright.T @ ((low + high) / 2)
    return float(cx), float(cy), float((high - low).max()) * _ROI_SCALE, angle


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-9), dtype=np.float64)
