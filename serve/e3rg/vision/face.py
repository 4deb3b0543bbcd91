"""Faces in a picture: where they are, their 468-point mesh, and how the head is turned.

Models: BlazeFace short and full range (Bazarevsky et al. 2019, arXiv 1907.05047) and Face Mesh
(Kartynnik et al. 2019, arXiv 1907.06724), as published with MediaPipe under Apache-2.0, run by
LiteRT. Landmark numbers are MediaPipe's canonical face mesh.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Self

import cv2
import numpy as np
from ai_edge_litert.interpreter import Interpreter  # type: ignore[import-untyped]
from numpy.typing import NDArray

from e3rg.models.store import ModelStore
from e3rg.vision.image import decode_image, image_size

__all__ = ["FaceBox", "FaceFinder", "FaceMesh", "decode_image", "image_size"]

MODEL_FILES = (
    "vision/face_detection_short_range.tflite",
    "vision/face_detection_full_range.tflite",
    "vision/face_landmark.tflite",
)

MIN_SCORE = 0.5
_OVERLAP = 0.3
# The short-range net wants the whole head in view: a border lets it see a face that fills the
# picture. The full-range net finds faces down to about 1/20 of its view; tiles reach smaller ones.
_BORDER = 0.35
_TILE = 640
_MAX_TILES_A_SIDE = 4
_ROI_SCALE = 1.5
_MESH_PASSES = 4
_SETTLED = 0.1  # radians

_RIGHT_EYE, _LEFT_EYE = 33, 263  # outer corners, the subject's right and left
_FOREHEAD, _CHIN = 10, 152
# Pairs (subject's right, subject's left) whose mean direction is the head's left-right axis.
_PAIRS = ((33, 263), (133, 362), (234, 454), (127, 356), (61, 291))


@dataclass(frozen=True, slots=True)
class FaceBox:
    """A detected face, in pixels of the picture; the box may reach over its edges.

    Attributes:
        score: 0 to 1.
        left, top, right, bottom: the box, from brows to chin and between the ears.
        keypoints: shape (6, 2), x and y: the subject's right eye, left eye, nose tip, mouth
            centre, right ear, left ear (tragion).
    """

    score: float
    left: float
    top: float
    right: float
    bottom: float
    keypoints: NDArray[np.float32]

    @property
    def width(self) -> float:
        """Width in pixels."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Height in pixels."""
        return self.bottom - self.top


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
        self._short = _Detector(short_range, threads, layers=((8, 2), (16, 6)))
        self._full = _Detector(full_range, threads, layers=((4, 1),))
        self._mesh = _Net(mesh, threads)
        self._lock = threading.Lock()

    @classmethod
    def load(cls, models: ModelStore, threads: int = 1) -> Self:
        """Load the three nets from the model cache."""
        short, full, mesh = (str(models.path(name)) for name in MODEL_FILES)
        return cls(short, full, mesh, threads)

    def detect(self, image_bgr: NDArray[np.uint8]) -> list[FaceBox]:
        """Find all faces, the largest first.

        Args:
            image_bgr: shape (height, width, 3), any size.
        """
        height, width = image_bgr.shape[:2]
        whole = (0.0, 0.0, float(width), float(height))
        border = _BORDER * max(width, height)
        wide = (-border, -border, width + border, height + border)
        with self._lock:
            found = self._short.detect(image_bgr, whole)
            found += self._short.detect(image_bgr, wide)
            found += self._full.detect(image_bgr, whole)
            for tile in _tiles(width, height):
                found += [box for box in self._full.detect(image_bgr, tile) if _inside(box, tile)]
            boxes = _suppress(found)
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
        to_picture = _square(cx, cy, side, angle, size)
        crop = _sample(image, to_picture, size)
        raw, score = self._mesh.run(crop.astype(np.float32) / 255.0)
        points = raw.reshape(468, 3)
        placed = np.empty_like(points)
        placed[:, :2] = points[:, :2] @ to_picture[:, :2].T + to_picture[:, 2]
        placed[:, 2] = points[:, 2] * (side / size)
        return placed, float(_sigmoid(score.reshape(-1)[:1])[0])


def head_pose(landmarks: NDArray[np.float32]) -> tuple[float, float, float]:
    """Yaw, pitch and roll in degrees (see FaceMesh) of a mesh of shape (468, 3).

    The head's axes are read off the mesh: between mirrored landmarks, and from chin to forehead,
    which lie in one frontal plane in the canonical mesh.
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
    return float(yaw), float(pitch), float(roll)


class _Net:
    """One LiteRT model with one image input; not safe for threads."""

    def __init__(self, path: str, threads: int) -> None:
        self._interpreter = Interpreter(model_path=path, num_threads=threads)
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]
        self._outputs = self._interpreter.get_output_details()
        self.size = int(self._input["shape"][1])

    def run(self, image: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        self._interpreter.set_tensor(self._input["index"], image[np.newaxis])
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(output["index"])[0] for output in self._outputs]


class _Detector:
    """A BlazeFace net: boxes and keypoints relative to a grid of anchors."""

    def __init__(self, path: str, threads: int, layers: tuple[tuple[int, int], ...]) -> None:
        self._net = _Net(path, threads)
        self._anchors = np.concatenate(
            [_anchors(self._net.size // stride, count) for stride, count in layers]
        )

    def detect(
        self, image: NDArray[np.uint8], region: tuple[float, float, float, float]
    ) -> list[FaceBox]:
        size = self._net.size
        left, top, right, bottom = region
        side = max(right - left, bottom - top)
        to_picture = _square((left + right) / 2, (top + bottom) / 2, side, 0.0, size)
        crop = _sample(image, to_picture, size)
        raw, scores = self._net.run(crop.astype(np.float32) / 127.5 - 1.0)
        score = _sigmoid(scores[:, 0])
        keep = score >= MIN_SCORE
        points = raw[keep].reshape(-1, 8, 2) / size
        points[:, 0] += self._anchors[keep]
        points[:, 2:] += self._anchors[keep][:, np.newaxis]
        origin = np.array([(left + right - side) / 2, (top + bottom - side) / 2], dtype=np.float32)
        boxes = []
        for value, face in zip(score[keep], points * np.float32(side), strict=True):
            centre, extent = face[0] + origin, face[1]
            low, high = centre - extent / 2, centre + extent / 2
            boxes.append(
                FaceBox(
                    float(value),
                    float(low[0]),
                    float(low[1]),
                    float(high[0]),
                    float(high[1]),
                    (face[2:] + origin).astype(np.float32),
                )
            )
        return boxes


def _anchors(cells: int, count: int) -> NDArray[np.float32]:
    """Anchor centres of one layer, row by row, ``count`` in each cell; shape (n, 2), 0 to 1."""
    centres = (np.arange(cells, dtype=np.float32) + 0.5) / cells
    y, x = np.meshgrid(centres, centres, indexing="ij")
    return np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), count, axis=0)


def _square(cx: float, cy: float, side: float, angle: float, size: int) -> NDArray[np.float32]:
    """Affine map, shape (2, 3), from a size×size crop to a turned square of the picture."""
    scale = side / size
    cos, sin = np.cos(angle) * scale, np.sin(angle) * scale
    half = size / 2
    return np.array(
        [[cos, -sin, cx - (cos - sin) * half], [sin, cos, cy - (sin + cos) * half]],
        dtype=np.float32,
    )


def _sample(
    image: NDArray[np.uint8], to_picture: NDArray[np.float32], size: int
) -> NDArray[np.uint8]:
    """Cut a crop, RGB; averages pixels when it shrinks much, for a net is sensitive to aliasing."""
    matrix = to_picture.astype(np.float64)
    scale = float(np.hypot(matrix[0, 0], matrix[1, 0]))
    if scale > 2.0:
        # Only the part under the crop is averaged: the picture may be forty megapixels.
        corners = np.array([[0, 0, 1], [size, 0, 1], [0, size, 1], [size, size, 1]]) @ matrix.T
        low = np.maximum(np.floor(corners.min(axis=0)).astype(int) - 2, 0)
        high = np.minimum(np.ceil(corners.max(axis=0)).astype(int) + 2, image.shape[1::-1])
        if (high - low).min() <= 0:
            return np.zeros((size, size, 3), np.uint8)
        part = image[low[1] : high[1], low[0] : high[0]]
        width, height = (max(1, round(n * 1.5 / scale)) for n in (high - low))
        matrix[:, 2] -= low
        matrix = np.diag([width / part.shape[1], height / part.shape[0]]) @ matrix
        image = _as_uint8(cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA))
    crop = cv2.warpAffine(
        image,
        matrix,
        (size, size),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_CONSTANT,
    )
    return _as_uint8(cv2.cvtColor(crop, cv2.COLOR_BGR2RGB))


def _as_uint8(image: NDArray[np.generic]) -> NDArray[np.uint8]:
    return image.astype(np.uint8, copy=False)


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


def _tiles(width: int, height: int) -> list[tuple[float, float, float, float]]:
    """Half-overlapping squares over a large picture, at most _MAX_TILES_A_SIDE a side."""
    longest = max(width, height)
    if longest <= 1.5 * _TILE:
        return []
    side = max(float(_TILE), 2.0 * longest / (_MAX_TILES_A_SIDE + 1))
    return [(x, y, x + side, y + side) for y in _starts(height, side) for x in _starts(width, side)]


def _starts(length: int, side: float) -> list[float]:
    if length <= side:
        return [(length - side) / 2]
    steps = int(np.ceil((length - side) / (side / 2)))
    return [float(start) for start in np.linspace(0.0, length - side, steps + 1)]


def _inside(box: FaceBox, tile: tuple[float, float, float, float]) -> bool:
    """A face cut by a tile's edge is another tile's, or the whole picture's, to find."""
    return (
        box.left >= tile[0]
        and box.top >= tile[1]
        and box.right <= tile[2]
        and box.bottom <= tile[3]
        and box.width < 0.5 * (tile[2] - tile[0])
    )


def _suppress(boxes: list[FaceBox]) -> list[FaceBox]:
    """Weighted non-maximum suppression (Bazarevsky et al. 2019, section 3.3)."""
    rest = sorted(boxes, key=lambda box: box.score, reverse=True)
    merged = []
    while rest:
        best = rest[0]
        group = [box for box in rest if box is best or _same(best, box)]
        rest = [box for box in rest if all(box is not other for other in group)]
        weights = np.array([box.score for box in group], dtype=np.float32)
        weights /= weights.sum()
        left, top, right, bottom = (
            float(weights @ np.array([getattr(box, edge) for box in group], dtype=np.float32))
            for edge in ("left", "top", "right", "bottom")
        )
        points = np.tensordot(weights, np.stack([box.keypoints for box in group]), axes=1)
        merged.append(FaceBox(best.score, left, top, right, bottom, points.astype(np.float32)))
    return merged


def _same(a: FaceBox, b: FaceBox) -> bool:
    width = min(a.right, b.right) - max(a.left, b.left)
    height = min(a.bottom, b.bottom) - max(a.top, b.top)
    if width <= 0 or height <= 0:
        return False
    both = width * height
    area_a, area_b = a.width * a.height, b.width * b.height
    # One box within another is one face seen by two nets, though their overlap by IoU is small.
    return both / (area_a + area_b - both) > _OVERLAP or both / min(area_a, area_b) > 0.7


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-9), dtype=np.float64)


def _sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(values, -80.0, 80.0))), dtype=np.float32)
