"""A portrait made ready to be moved: planes, displacement fields on a grid, and cut-out curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from e3rg.stages.avatar import landmarks as lm
from e3rg.stages.avatar.eyes import darkest, eyeball
from e3rg.stages.avatar.fields import CONTROLS, INDEX, FieldBuilder
from e3rg.stages.avatar.folds import fold_maps
from e3rg.stages.avatar.landmarks import FaceFrame, face_frame
from e3rg.stages.avatar.mouth import MouthInterior, mouth_interior
from e3rg.stages.avatar.portrait import FramedPortrait
from e3rg.stages.avatar.refine import dark_line, outer_edge

FloatArray = NDArray[np.floating[Any]]

STEP = 4
"""Pixels between grid points; fields are computed on the grid and interpolated to pixels."""

PAD = 1
"""Grid points beyond each edge, so that interpolation reaches the picture's edge pixels."""

_POINTS = 25  # on each lid and lip edge
# Controls whose upper and lower fields differ.
_SLIT = (
    "close", "unsmile", "jaw", "upper", "lower", "width", "thick_upper", "thick_lower",
    "corner_right", "corner_left", "chin", "purse", "lid", "squint",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Curve:
    """A line fixed to the face.

    Attributes:
        points: shape (n, 2), pixels of the portrait.
        basis: shape (controls, n * 2), how each control moves the points, pixels.
    """

    points: FloatArray
    basis: FloatArray

    def moved(self, weights: FloatArray) -> FloatArray:
        """The points under control weights, before head motion; shape (n, 2)."""
        return np.asarray(self.points + (weights @ self.basis).reshape(-1, 2), np.float32)


@dataclass(frozen=True, slots=True)
class EyeRig:
    """One eye: its lids, and the eyeball with what the lids hid filled in.

    Attributes:
        upper, lower: lid edges.
        origin: left and top of ``ball`` in the portrait.
        ball: YUV, shape (h, w, 3).
        centre: one point, the eyeball's centre.
        width, gap: size of the opening in pixels.
        lashes: YUV of the line between closed lids.
    """

    upper: Curve
    lower: Curve
    origin: tuple[int, int]
    ball: FloatArray
    centre: Curve
    width: float
    gap: float
    lashes: FloatArray


@dataclass(frozen=True, slots=True)
class Rig:
    """All that rendering needs of one portrait; never written to after it is built.

    Attributes:
        i420: the portrait, shape (size * 3 / 2, size).
        luma: shape (size, size); chroma: shape (size / 2, size / 2, 2).
        face: measures.
        pivot: pixels, the point that the head turns about.
        window: left, top, right, bottom of the grid part that can move, in grid points.
        face_window: the part of it that expressions and speech move.
        breath: shape (gh, gw, 2), how breathing moves the window, in grid units.
        upper: shape (controls, n): fields above the slits over the face window, in grid units.
        slit: indices of the controls that differ below the slits.
        slit_window: the part of the face window where they do; lower: the difference over it.
        head: shape (gh, gw, 1): how far the picture follows the head, 0 to 1.
        lip_upper, lip_lower: inner lip edges.
        eyes: the subject's right and left eye.
        smile: 0 to 1, how much the portrait smiles by itself.
        folds: shape (folds, height, width), see fold_maps, over the pixels of the face window.
        folds_at: left and top of that area in the portrait.
        interior: the inside of the mouth; mouth: one point, its middle on the head.
    """

    i420: NDArray[np.uint8]
    luma: NDArray[np.uint8]
    chroma: NDArray[np.uint8]
    face: FaceFrame
    pivot: FloatArray
    window: tuple[int, int, int, int]
    face_window: tuple[int, int, int, int]
    breath: FloatArray
    upper: FloatArray
    slit: NDArray[np.intp]
    slit_window: tuple[int, int, int, int]
    lower: FloatArray
    head: FloatArray
    lip_upper: Curve
    lip_lower: Curve
    eyes: tuple[EyeRig, EyeRig]
    interior: MouthInterior
    mouth: Curve
    smile: float
    folds: FloatArray
    folds_at: tuple[int, int]


def build_rig(portrait: FramedPortrait) -> Rig:
    """Compute everything that depends on the portrait alone; about half a second."""
    size = portrait.image.shape[0]
    i420 = cv2.cvtColor(portrait.image, cv2.COLOR_BGR2YUV_I420).astype(np.uint8, copy=False)
    luma = i420[:size]
    landmarks = _refined(portrait.landmarks, luma)
    face = face_frame(landmarks)
    fields = FieldBuilder(landmarks, face)

    cells = size // STEP + 2 * PAD
    axis = (np.arange(cells, dtype=np.float32) - PAD) * STEP + (STEP - 1) / 2
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    head = _head_weight(grid, landmarks, face)
    upper, lower = fields.at(grid.reshape(-1, 2))
    breath = upper[INDEX["breath"]].copy()
    upper[INDEX["breath"]] = lower[INDEX["breath"]] = 0
    face_window = _bounds(_reach(upper, lower).reshape(cells, cells) > 0.08)
    apart = np.abs(lower - upper).max(axis=(0, 1)).reshape(cells, cells) > 0.08
    slit_window = _bounds(apart)
    moving = (head > 0.01) | (np.abs(breath).max(axis=0).reshape(cells, cells) > 0.06)
    window = _bounds(moving, *face_window)

    def crop(field: FloatArray, window: tuple[int, int, int, int]) -> FloatArray:
        left, top, right, bottom = window
        part = field.reshape(-1, 2, cells, cells)[:, :, top:bottom, left:right]
        part = np.moveaxis(part, 1, -1) / STEP
        return np.ascontiguousarray(part, np.float32)

    left, top, right, bottom = window

    slit = np.array([INDEX[name] for name in _SLIT], np.intp)
    half = size // 2
    chroma = np.stack([plane.reshape(half, half) for plane in i420[size:].reshape(2, -1)], axis=-1)
    yuv = np.dstack([luma, cv2.resize(chroma, (size, size), interpolation=cv2.INTER_LINEAR)])

    edge = _spline(face.upper, _POINTS)
    lip_upper = _curve(fields, face.pixels(edge, face.mouth), above=True)
    edge[:, 1] = np.maximum(edge[:, 1], _height(_spline(face.lower, 8 * _POINTS), edge[:, 0]))
    lip_lower = _curve(fields, face.pixels(edge, face.mouth), above=False)
    folds, folds_at = _folds(landmarks, face, size)
    smile = min(1.0, fields.smile_lift / 0.07)
    rest = rest_weights()
    middle = _POINTS // 2
    upper_rest = face.local(lip_upper.moved(rest), face.mouth)[middle, 1]
    lower_rest = face.local(lip_lower.moved(rest), face.mouth)[middle, 1]
    return Rig(
        i420=i420,
        luma=np.ascontiguousarray(luma),
        chroma=np.ascontiguousarray(chroma),
        face=face,
        pivot=face.pixels(np.array([0, face.chin + 0.3], np.float32), face.mouth),
        window=window,
        face_window=face_window,
        breath=crop(breath[np.newaxis], window)[0],
        upper=crop(upper, face_window).reshape(len(CONTROLS), -1),
        slit=slit,
        slit_window=slit_window,
        lower=crop((lower - upper)[slit], slit_window).reshape(len(slit), -1),
        head=np.ascontiguousarray(head[top:bottom, left:right, np.newaxis]),
        lip_upper=lip_upper,
        lip_lower=lip_lower,
        eyes=(_eye(fields, 0, yuv), _eye(fields, 1, yuv)),
        interior=mouth_interior(
            face,
            yuv,
            (float(upper_rest), float(lower_rest)),
            np.concatenate([lip_upper.points, lip_lower.points[::-1]])
            if fields.mouth_gap.max() > 0.06
            else None,
        ),
        mouth=_point(fields, face.mouth),
        smile=smile,
        # A portrait that smiles by itself shows the folds of its smile already.
        folds=folds * np.array([1, 1, 1 - 0.8 * smile, 1], np.float32).reshape(-1, 1, 1),
        folds_at=folds_at,
    )


def _folds(landmarks: FloatArray, face: FaceFrame, size: int) -> tuple[FloatArray, tuple[int, int]]:
    oval = landmarks[list(lm.FACE_OVAL), :2]
    low = np.clip(np.floor(oval.min(axis=0)), 0, size - 2).astype(int)
    high = np.clip(np.ceil(oval.max(axis=0)), low + 1, size).astype(int)
    ys, xs = np.mgrid[low[1] : high[1], low[0] : high[0]]
    maps = fold_maps(landmarks, face, np.stack([xs, ys], axis=-1).astype(np.float32))
    return maps.astype(np.float32), (int(low[0]), int(low[1]))


def _refined(landmarks: FloatArray, luma: NDArray[np.uint8]) -> FloatArray:
    """Lip and lid edges of the mesh moved onto those of the picture."""
    moved = landmarks.copy()
    face = face_frame(landmarks)
    down = face.axes[1]
    upper, lower = list(lm.LIPS_INNER_UPPER), list(lm.LIPS_INNER_LOWER)
    gap = float(((moved[lower, :2] - moved[upper, :2]) @ down).max())
    if gap < lm.CLOSED * face.unit:
        seam = (moved[upper, :2] + moved[lower, :2]) / 2
        shift = dark_line(luma, seam, down, 0.06 * face.unit)
        seam = seam + shift[:, np.newaxis] * down
        moved[upper, :2] = moved[lower, :2] = seam
    for side in (0, 1):
        above, below = list(lm.EYES_UPPER[side]), list(lm.EYES_LOWER[side])
        gap = float(((moved[below, :2] - moved[above, :2]) @ down).max())
        # What is cut out too widely is filled with itself; what is left out stays visible.
        corners = moved[[below[0], below[-1]], :2]
        moved[[below[0], below[-1]], :2] += 0.06 * (corners - corners[::-1])
        if gap > 0.05 * face.unit:
            shift = outer_edge(luma, moved[below, :2], down, 0.5 * gap, 1.5)
            moved[below, :2] += shift[:, np.newaxis] * down
            shift = outer_edge(luma, moved[above, :2], -down, 0.35 * gap, 0.0)
            moved[above[1:-1], :2] -= shift[1:-1, np.newaxis] * down
    return moved


def rest_weights() -> FloatArray:
    """Control weights of a closed, neutral mouth."""
    weights = np.zeros(len(CONTROLS), np.float32)
    weights[[INDEX["close"], INDEX["unsmile"]]] = 1
    return weights


def _head_weight(grid: FloatArray, landmarks: FloatArray, face: FaceFrame) -> FloatArray:
    """1 on the face and hair, easing to 0 in the background and on the shoulders."""
    oval = landmarks[list(lm.FACE_OVAL), :2]
    centre = oval.mean(axis=0)
    p = face.local(grid, centre)
    extent = np.abs(face.local(oval, centre)).max(axis=0)
    up = np.where(p[..., 1] < 0, 1.45, 1.05)  # hair above
    r = np.hypot(p[..., 0] / (1.22 * extent[0]), p[..., 1] / (up * extent[1]))
    t = np.clip((r - 1.0) / 0.5, 0, 1)
    return np.asarray(1 - t * t * (3 - 2 * t), np.float32)


def _reach(upper: FloatArray, lower: FloatArray) -> FloatArray:
    """Pixels that each grid point moves at most by one control, shape (n,)."""
    scale = np.ones((len(CONTROLS), 1, 1), np.float32)
    scale[[INDEX["yaw"], INDEX["pitch"]]] = 0.07  # radians
    both = np.maximum(np.abs(upper * scale), np.abs(lower * scale))
    return np.asarray(both.max(axis=(0, 1)), np.float32)


def _bounds(
    moving: NDArray[np.bool_],
    left: int = 1 << 30,
    top: int = 1 << 30,
    right: int = 0,
    bottom: int = 0,
) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what moves, two points wider, around an inner window."""
    rows, columns = np.flatnonzero(moving.any(axis=1)), np.flatnonzero(moving.any(axis=0))
    return (
        min(max(int(columns[0]) - 2, 0), left),
        min(max(int(rows[0]) - 2, 0), top),
        max(min(int(columns[-1]) + 3, moving.shape[1]), right),
        max(min(int(rows[-1]) + 3, moving.shape[0]), bottom),
    )


def _height(curve: FloatArray, x: FloatArray) -> FloatArray:
    """y of a curve at given x."""
    return np.asarray(np.interp(x, curve[:, 0], curve[:, 1]), np.float32)


def _curve(fields: FieldBuilder, points: FloatArray, above: bool) -> Curve:
    basis = fields.at(points)[0 if above else 1]
    return Curve(points, np.ascontiguousarray(np.moveaxis(basis, 1, 2).reshape(len(basis), -1)))


def _point(fields: FieldBuilder, at: FloatArray) -> Curve:
    """A point that follows the whole head only."""
    basis = fields.at(at[np.newaxis])[0]
    basis = np.moveaxis(basis, 1, 2).reshape(len(basis), -1)
    keep = np.zeros_like(basis)
    for name in ("yaw", "pitch"):
        keep[INDEX[name]] = basis[INDEX[name]]
    return Curve(at[np.newaxis].astype(np.float32), keep)


def _eye(fields: FieldBuilder, side: int, yuv: NDArray[np.uint8]) -> EyeRig:
    eye = fields.eyes[side]
    lid = _spline(eye.upper, _POINTS)
    upper = _curve(fields, fields.face.pixels(lid, eye.centre), above=True)
    lid[:, 1] = np.maximum(lid[:, 1], _height(_spline(eye.lower, 8 * _POINTS), lid[:, 0]))
    lower = _curve(fields, fields.face.pixels(lid, eye.centre), above=False)
    outline = np.concatenate([upper.points, lower.points[::-1]])
    unit = fields.face.unit
    low = np.maximum(np.floor(outline.min(axis=0) - 0.12 * unit).astype(int), 0)
    high = np.minimum(np.ceil(outline.max(axis=0) + 0.12 * unit).astype(int), yuv.shape[0])
    patch = np.ascontiguousarray(yuv[low[1] : high[1], low[0] : high[0]])
    inside = np.zeros(patch.shape[:2], np.uint8)
    cv2.fillPoly(inside, [np.round((outline - low) * 16).astype(np.int32)], (255,), shift=4)
    # Lashes and the lids' rims lie just inside the outline: they belong to the lids.
    seen = cv2.erode(inside, np.ones((3, 3), np.uint8)).astype(np.uint8)
    ball = eyeball(patch, seen)
    return EyeRig(
        upper=upper,
        lower=lower,
        origin=(int(low[0]), int(low[1])),
        ball=ball.astype(np.float32),
        centre=_point(fields, eye.centre),
        width=float(eye.upper[-1, 0] - eye.upper[0, 0]) * unit,
        gap=eye.gap * unit,
        lashes=darkest(yuv, upper.points),
    )


def _spline(points: FloatArray, count: int) -> FloatArray:
    """Catmull-Rom curve through the points, ends included; shape (count, 2)."""
    padded = np.concatenate([2 * points[:1] - points[1:2], points, 2 * points[-1:] - points[-2:-1]])
    at = np.linspace(0, len(points) - 1, count)
    i = np.minimum(at.astype(int), len(points) - 2)
    t = (at - i)[:, np.newaxis]
    a, b, c, d = (padded[i + k] for k in range(4))
    curve = b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))
    return np.asarray(curve, np.float32)
