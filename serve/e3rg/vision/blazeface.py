"""BlazeFace, the face detector (Bazarevsky et al. 2019, arXiv 1907.05047)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e3rg.vision.crops import sample, square
from e3rg.vision.litert import ImageNet, sigmoid

MIN_SCORE = 0.5
_OVERLAP = 0.3
_TILE = 640
_MAX_TILES_A_SIDE = 4

Region = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels of a picture; may reach over its edges."""


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


class Detector:
    """A BlazeFace net: boxes and keypoints relative to a grid of anchors; not safe for threads.

    Args:
        path: the .tflite file.
        threads: of the interpreter.
        layers: (stride in pixels, anchors in each cell) of each output layer.
    """

    def __init__(self, path: str, threads: int, layers: tuple[tuple[int, int], ...]) -> None:
        self._net = ImageNet(path, threads)
        self._anchors = np.concatenate(
            [_anchors(self._net.size // stride, count) for stride, count in layers]
        )

    def detect(self, image: NDArray[np.uint8], region: Region) -> list[FaceBox]:
        """Faces in a part of the picture, before suppression, in the picture's pixels."""
        size = self._net.size
        left, top, right, bottom = region
        side = max(right - left, bottom - top)
        to_picture = square((left + right) / 2, (top + bottom) / 2, side, 0.0, size)
        crop = sample(image, to_picture, size)
        raw, scores = self._net.run(crop.astype(np.float32) / 127.5 - 1.0)
        score = sigmoid(scores[:, 0])
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


def tiles(width: int, height: int) -> list[Region]:
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


def inside(box: FaceBox, tile: Region) -> bool:
    """A face cut by a tile's edge is another tile's, or the whole picture's, to find."""
    return (
        box.left >= tile[0]
        and box.top >= tile[1]
        and box.right <= tile[2]
        and box.bottom <= tile[3]
        and box.width < 0.5 * (tile[2] - tile[0])
    )


def suppress(boxes: list[FaceBox]) -> list[FaceBox]:
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
