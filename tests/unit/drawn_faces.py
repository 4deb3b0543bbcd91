"""Faces drawn by code, for tests of vision: no photograph is needed, and nobody's likeness."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

SKIN, HAIR, LIP = (150, 178, 224), (40, 60, 90), (92, 92, 190)


def face(mouth: str = "neutral", size: int = 512, seed: int = 0) -> NDArray[np.uint8]:
    """A BGR picture, size×size, of one frontal face whose width is about 0.45 of it.

    Args:
        mouth: ``neutral``, ``smile`` or ``open``.
        size: pixels a side.
        seed: of the background's grain.
    """
    grain = np.random.default_rng(seed).normal(0, 3, (512, 512, 3))
    image = np.clip(np.full((512, 512, 3), (190, 170, 150)) + grain, 0, 255).astype(np.uint8)
    cv2.ellipse(image, (256, 560), (200, 150), 0, 0, 360, (110, 70, 50), -1, cv2.LINE_AA)
    cv2.rectangle(image, (216, 360), (296, 450), (130, 158, 205), -1)
    cv2.ellipse(image, (256, 225), (132, 165), 0, 0, 360, HAIR, -1, cv2.LINE_AA)
    for x in (139, 373):
        cv2.ellipse(image, (x, 268), (14, 28), 0, 0, 360, (140, 165, 212), -1, cv2.LINE_AA)
    cv2.ellipse(image, (256, 260), (115, 150), 0, 0, 360, SKIN, -1, cv2.LINE_AA)
    cv2.ellipse(image, (256, 130), (105, 60), 0, 180, 360, HAIR, -1, cv2.LINE_AA)
    for x in (207, 305):
        _eye(image, x, wide=mouth == "open")
    shade = (128, 152, 200)
    cv2.line(image, (250, 250), (244, 298), shade, 4, cv2.LINE_AA)
    cv2.ellipse(image, (256, 302), (22, 12), 0, 10, 170, (100, 122, 172), 4, cv2.LINE_AA)
    for x in (246, 266):
        cv2.circle(image, (x, 307), 4, (70, 85, 125), -1, cv2.LINE_AA)
    _mouth(image, mouth)
    soft = cv2.GaussianBlur(image, (0, 0), 1.6)
    return cv2.resize(soft, (size, size), interpolation=cv2.INTER_AREA).astype(np.uint8)


def _eye(image: NDArray[np.uint8], x: int, *, wide: bool) -> None:
    height, brow = (17, 196) if wide else (12, 208)
    cv2.ellipse(image, (x, 240), (28, height), 0, 0, 360, (238, 240, 242), -1, cv2.LINE_AA)
    cv2.circle(image, (x, 240), 12, (70, 90, 60), -1, cv2.LINE_AA)
    cv2.circle(image, (x, 240), 6, (15, 15, 15), -1, cv2.LINE_AA)
    cv2.circle(image, (x + 4, 236), 3, (255, 255, 255), -1, cv2.LINE_AA)
    cv2.ellipse(image, (x, 240), (28, height), 0, 180, 360, (40, 40, 50), 3, cv2.LINE_AA)
    cv2.ellipse(image, (x, brow + 12), (34, 16), 0, 200, 340, HAIR, 8, cv2.LINE_AA)


def _mouth(image: NDArray[np.uint8], kind: str) -> None:
    if kind == "smile":
        corners = np.array([[196, 340], [316, 340]])
        arc = cv2.ellipse2Poly((256, 340), (60, 40), 0, 0, 180, 5)
        cv2.fillPoly(image, [np.concatenate([corners, arc])], LIP, cv2.LINE_AA)
        teeth = cv2.ellipse2Poly((256, 344), (50, 22), 0, 0, 180, 5)
        cv2.fillPoly(image, [teeth], (240, 244, 246), cv2.LINE_AA)
        for x, start, end in ((184, 100, 200), (328, -20, 80)):
            cv2.ellipse(image, (x, 325), (16, 34), 0, start, end, (120, 145, 195), 3, cv2.LINE_AA)
    elif kind == "open":
        cv2.ellipse(image, (256, 362), (30, 38), 0, 0, 360, LIP, -1, cv2.LINE_AA)
        cv2.ellipse(image, (256, 362), (21, 28), 0, 0, 360, (40, 35, 70), -1, cv2.LINE_AA)
    else:
        cv2.ellipse(image, (256, 350), (42, 13), 0, 0, 360, LIP, -1, cv2.LINE_AA)
        cv2.line(image, (216, 350), (296, 350), (70, 62, 140), 3, cv2.LINE_AA)
