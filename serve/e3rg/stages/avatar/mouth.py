"""The inside of the mouth: teeth, tongue and dark, drawn in the portrait's light and colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from e3rg.stages.avatar.landmarks import FaceFrame

FloatArray = NDArray[np.floating[Any]]

# Sizes in distances between the eyes (63 mm).
_UPPER_TEETH, _LOWER_TEETH = (0.13, 0.115, 0.105, 0.10, 0.10), (0.085, 0.09, 0.10, 0.10, 0.10)
_SHOWN = 0.045  # how far the upper teeth reach below a resting lip


@dataclass(frozen=True, slots=True)
class MouthInterior:
    """Three layers in the portrait's pixels, premultiplied YUV and alpha, shape (h, w, 4).

    Attributes:
        origin: left and top of the layers in the portrait.
        upper: upper teeth, fixed to the head.
        lower: lower teeth, fixed to the jaw.
        tongue: the tongue at rest, fixed to the jaw.
        dark: YUV of the cavity; seam: of the line between closed lips.
    """

    origin: tuple[int, int]
    upper: FloatArray
    lower: FloatArray
    tongue: FloatArray
    dark: FloatArray
    seam: FloatArray


def mouth_interior(
    face: FaceFrame,
    yuv: NDArray[np.uint8],
    lips: tuple[float, float],
    opening: FloatArray | None,
) -> MouthInterior:
    """Draw the layers.

    Args:
        face: the portrait's measures.
        yuv: the portrait, shape (size, size, 3).
        lips: y of the closed lips' edges, upper and lower, in the middle, in mouth coordinates.
        opening: outline in pixels, shape (n, 2), if the portrait shows its own teeth.
    """
    upper_lip, lower_lip = lips
    size = yuv.shape[0]
    cx, cy = face.mouth
    reach_x, up, down = face.unit * 0.7, face.unit * 0.35, face.unit * 0.65
    left, top = max(0, int(cx - reach_x)), max(0, int(cy - up))
    right, bottom = min(size, int(cx + reach_x)), min(size, int(cy + down))
    ys, xs = np.mgrid[top:bottom, left:right].astype(np.float32)
    p = face.local(np.stack([xs, ys], axis=-1), face.mouth)
    x, y = p[..., 0], p[..., 1]
    u = x / max(face.half, 0.3)
    pixel = 1.2 / face.unit

    skin, lips_yuv = _tones(face, yuv)
    chroma = lips_yuv[1:] - 128
    light = float(np.clip(0.55 * skin[0] + 105, 150, 232))
    enamel = np.array([light, 128 + 0.10 * chroma[0] - 3, 128 + 0.10 * chroma[1] + 1])
    flesh = np.array([0.36 * skin[0] + 22, *(128 + 0.85 * chroma)])
    dark = np.array([20 + 0.08 * skin[0], *(128 + 0.55 * chroma)], np.float32)

    edge = upper_lip + _SHOWN - 0.085 * u * u
    gap, round_ = _teeth(x, _UPPER_TEETH)
    alpha = _ramp((edge - 0.018 * round_ - y) / pixel)
    shade = (1 - 0.10 * gap) * (1 - 0.62 * np.clip(np.abs(u), 0, 1.2) ** 2.2)
    upper = _layer(enamel, shade * (0.88 + 0.12 * _ramp((y - upper_lip + 0.05) / 0.1)), alpha)

    edge = lower_lip - 0.006 + 0.11 * u * u
    gap, round_ = _teeth(x, _LOWER_TEETH)
    alpha = _ramp((y - edge - 0.010 * round_) / pixel)
    shade = 0.82 * (1 - 0.12 * gap) * (1 - 0.75 * np.clip(np.abs(u), 0, 1.1) ** 2)
    lower = _layer(enamel, shade, alpha)

    away = np.hypot(x / 0.30, (y - lower_lip - 0.07) / 0.17)
    shade = 1.0 - 0.35 * _ramp((y - lower_lip) / 0.25) - 0.12 * np.exp(-((x / 0.02) ** 2))
    tongue = _layer(flesh, shade, _ramp((1 - away) / 0.18))
    if opening is not None:
        upper = _own_teeth(yuv[top:bottom, left:right], opening - (left, top), face)
    seam = np.array([16 + 0.42 * (lips_yuv[0] - 16), *(128 + 0.9 * chroma)], np.float32)
    return MouthInterior((left, top), upper, lower, tongue, dark, seam)


def _own_teeth(yuv: NDArray[np.uint8], opening: FloatArray, face: FaceFrame) -> FloatArray:
    """What a smiling portrait shows between its lips, as the upper layer."""
    mask = _filled(opening, yuv.shape[:2])
    mask = cv2.erode(mask, np.ones((3, 3), np.uint8)).astype(np.uint8)
    # Above the outline the teeth go on under the lip, which may rise.
    grown = opening[: len(opening) // 2] - 0.1 * face.unit * face.axes[1]
    cover = _filled(np.concatenate([grown, opening[len(opening) // 2 :]]), yuv.shape[:2])
    cover = cv2.erode(cover, np.ones((3, 3), np.uint8)).astype(np.uint8)
    alpha = cv2.GaussianBlur(cover.astype(np.float32) / 255, (0, 0), 0.8)
    filled = cv2.inpaint(np.ascontiguousarray(yuv), 255 - mask, 3, cv2.INPAINT_TELEA)
    return np.dstack([filled * alpha[..., np.newaxis], alpha]).astype(np.float32)


def _filled(outline: FloatArray, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    mask = np.zeros(shape, np.uint8)
    cv2.fillPoly(mask, [np.round(outline * 16).astype(np.int32)], (255,), shift=4)
    return mask


def _layer(colour: NDArray[np.float64], shade: FloatArray, alpha: FloatArray) -> FloatArray:
    """Premultiplied layer; shade scales luma, and chroma less, as in a shadow."""
    yuv = np.empty((*alpha.shape, 4), np.float32)
    yuv[..., 0] = 16 + (colour[0] - 16) * shade
    for channel in (1, 2):
        yuv[..., channel] = 128 + (colour[channel] - 128) * (0.4 + 0.6 * shade)
    yuv[..., :3] *= alpha[..., np.newaxis]
    yuv[..., 3] = alpha
    return yuv


def _teeth(x: FloatArray, widths: tuple[float, ...]) -> tuple[FloatArray, FloatArray]:
    """Darkness of the gaps between teeth, and how far each place is from its tooth's middle."""
    edges = np.concatenate([[0.0], np.cumsum(widths)])
    ax = np.abs(x)
    index = np.clip(np.searchsorted(edges, ax, side="right") - 1, 0, len(widths) - 1)
    width = np.asarray(widths)[index]
    across = np.clip((ax - edges[index]) / width, 0, 1)
    nearest = np.minimum(across, 1 - across) * width
    gap = np.exp(-((nearest / 0.009) ** 2))
    return gap.astype(np.float32), ((2 * across - 1) ** 4).astype(np.float32)


def _tones(
    face: FaceFrame, yuv: NDArray[np.uint8]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Median YUV of the cheeks' skin and of the lower lip."""
    size = yuv.shape[0]

    def median(points: FloatArray) -> NDArray[np.float64]:
        at = np.clip(np.round(face.pixels(points, face.mouth)), 0, size - 1).astype(int)
        return np.asarray(np.median(yuv[at[:, 1], at[:, 0]], axis=0), np.float64)

    grid = np.stack(np.meshgrid([-0.75, -0.65, -0.55, 0.55, 0.65, 0.75], [-0.3, -0.2, -0.1]), -1)
    skin = median(grid.reshape(-1, 2).astype(np.float32))
    middle = len(face.lower) // 2
    below = float(face.lower[middle, 1]) + 0.5 * face.lip_lower
    lip = np.stack([np.linspace(-0.4, 0.4, 15) * face.half, np.full(15, below)], axis=1)
    return skin, median(lip.astype(np.float32))


def _ramp(x: FloatArray) -> FloatArray:
    t = np.clip(x, 0, 1)
    return np.asarray(t * t * (3 - 2 * t), np.float32)
