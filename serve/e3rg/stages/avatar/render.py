"""One frame from a rig: a backward warp of the planes, then eyeballs and the mouth's inside."""

from __future__ import annotations

from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from e3rg.stages.avatar.fields import INDEX
from e3rg.stages.avatar.folds import FOLDS
from e3rg.stages.avatar.motion import Pose
from e3rg.stages.avatar.rig import STEP, Curve, EyeRig, Rig
from e3rg.stages.avatar.visemes import Mouth

FloatArray = NDArray[np.floating[Any]]

# Steps of the inversion. Where skin is stretched to more than twice its length a full step would
# overshoot for ever; after a first full one, shorter steps settle there too.
_STEPS = (1.0, 0.65, 0.65)


class Renderer:
    """Renders frames of one rig; owns its buffers, so use one in each thread."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        left, top, right, bottom = rig.window
        self._shape = (bottom - top, right - left)
        ys, xs = np.mgrid[top:bottom, left:right].astype(np.float32)
        self._grid = np.stack([xs, ys], axis=-1)
        # Head motion and breathing are linear in these, see _warp.
        weighted = np.concatenate([rig.head * self._grid, rig.head, rig.breath], axis=-1)
        self._rigid = np.ascontiguousarray(weighted.reshape(-1, 5), np.float32)
        # Pixels covered by whole cells inside the window.
        self._left, self._top = left * STEP, top * STEP
        self._width, self._height = (right - left - 2) * STEP, (bottom - top - 2) * STEP
        self._luma = rig.luma.copy()
        self._strengths = np.zeros(len(FOLDS), np.float32)
        self._frame = rig.i420.copy()
        size = rig.luma.shape[0]
        self._y = self._frame[:size]
        half = size // 2
        self._u = self._frame[size : size + size // 4].reshape(half, half)
        self._v = self._frame[size + size // 4 :].reshape(half, half)

    def shade(self, strengths: FloatArray) -> None:
        """Lay the skin's folds (see fold_strengths) on the portrait for the frames to come."""
        if np.array_equal(strengths, self._strengths):
            return
        self._strengths = strengths
        left, top = self._rig.folds_at
        darker = 1 - np.tensordot(strengths, self._rig.folds, axes=1)
        height, width = darker.shape
        plain = self._rig.luma[top : top + height, left : left + width]
        self._luma[top : top + height, left : left + width] = plain * np.clip(darker, 0.5, 1)

    def render(self, weights: FloatArray, mouth: Mouth, pose: Pose) -> NDArray[np.uint8]:
        """Draw one frame.

        Returns:
            I420, shape (size * 3 / 2, size); valid until the next call.
        """
        rig = self._rig
        affine = self._affine(pose)
        lips = [_apply(affine, curve.moved(weights)) for curve in (rig.lip_upper, rig.lip_lower)]
        lids = [
            [_apply(affine, curve.moved(weights)) for curve in (eye.upper, eye.lower)]
            for eye in rig.eyes
        ]
        self._warp(weights, affine, lips, lids)
        for eye, (upper, lower) in zip(rig.eyes, lids, strict=True):
            self._draw_eye(eye, upper, lower, weights, affine, pose)
        self._draw_mouth(lips[0], lips[1], weights, affine, mouth)
        return self._frame

    def _affine(self, pose: Pose) -> FloatArray:
        """Head motion, portrait → frame, shape (2, 3)."""
        rig = self._rig
        cos, sin = np.cos(pose.roll) * pose.scale, np.sin(pose.roll) * pose.scale
        turn = np.array([[cos, -sin], [sin, cos]])
        shift = rig.face.unit * (np.array([pose.x, pose.y]) @ rig.face.axes)
        offset = rig.pivot - turn @ rig.pivot + shift
        return np.asarray(np.hstack([turn, offset[:, np.newaxis]]), np.float32)

    def _warp(
        self,
        weights: FloatArray,
        affine: FloatArray,
        lips: list[FloatArray],
        lids: list[list[FloatArray]],
    ) -> None:
        rig = self._rig
        inverse = cv2.invertAffineTransform(affine.astype(np.float64))
        # The same map in grid units: pixel = STEP * grid − c on both sides.
        c = (STEP + 1) / 2
        matrix = inverse[:, :2]
        offset = (inverse[:, 2] + c - matrix @ np.array([c, c])) / STEP
        breath = -weights[INDEX["breath"]] * np.eye(2)
        terms = np.vstack([matrix.T - np.eye(2), offset, breath]).astype(np.float32)
        grid = self._grid + (self._rigid @ terms).reshape(self._grid.shape)

        face = _part(rig.face_window, rig.window)
        slit = _part(rig.slit_window, rig.window)
        slit_in_face = _part(rig.slit_window, rig.face_window)
        upper = (weights @ rig.upper).reshape(grid[face].shape)
        lower = upper[slit_in_face]
        lower = lower + (weights[rig.slit] @ rig.lower).reshape(lower.shape)
        below = _invert(grid[slit], lower, rig.slit_window)
        grid[face] = _invert(grid[face], upper, rig.face_window)

        mask = np.zeros((self._height, self._width), np.uint8)
        self._mask_below(mask, lips, lids)
        for scale in (1, 2):
            step = STEP // scale
            # A position on the grid → a pixel of the plane; linear, so done before interpolation.
            gain, shift = np.float32(step), np.float32((step - 1) / 2 - step)
            at = _upsample(grid * gain + shift, step)
            inner = tuple(slice(part.start * step, (part.stop - 2) * step) for part in slit)
            lower_at = _upsample(below * gain + shift, step)
            cv2.copyTo(lower_at, np.ascontiguousarray(mask[::scale, ::scale][inner]), at[inner])
            rows = slice(self._top // scale, (self._top + self._height) // scale)
            columns = slice(self._left // scale, (self._left + self._width) // scale)
            if scale == 1:
                self._y[rows, columns] = _remap(self._luma, at)
            else:
                chroma = _remap(rig.chroma, at)
                self._u[rows, columns] = chroma[..., 0]
                self._v[rows, columns] = chroma[..., 1]

    def _mask_below(
        self, mask: NDArray[np.uint8], lips: list[FloatArray], lids: list[list[FloatArray]]
    ) -> None:
        face = self._rig.face
        down = face.axes[1] * face.unit
        seam = (lips[0] + lips[1]) / 2
        side = face.axes[0] * face.unit * 3
        outline = [seam[0] - side, *seam, seam[-1] + side, seam[-1] + side + 6 * down]
        self._fill(mask, np.array([*outline, seam[0] - side + 6 * down]))
        for eye, (upper, lower) in zip(self._rig.eyes, lids, strict=True):
            seam = (upper + lower) / 2
            reach = down * (max(1.3 * eye.gap / face.unit, 0.16) + 0.05)
            self._fill(mask, np.concatenate([seam, (lower + reach)[::-1]]))

    def _fill(self, mask: NDArray[np.uint8], polygon: FloatArray) -> None:
        points = np.round((polygon - (self._left, self._top)) * 16).astype(np.int32)
        cv2.fillPoly(mask, [points], (255,), shift=4)

    def _draw_eye(
        self,
        eye: EyeRig,
        upper: FloatArray,
        lower: FloatArray,
        weights: FloatArray,
        affine: FloatArray,
        pose: Pose,
    ) -> None:
        # Shut lids leave a line of lashes, which also hides what the mesh missed of the white.
        opening = float(np.max(lower[:, 1] - upper[:, 1]))
        line = self._rig.face.axes[1] * max(1.5, 0.022 * self._rig.face.unit)
        fade = np.sin(np.linspace(0, np.pi, len(upper)))[:, np.newaxis]
        upper = upper - fade * line * np.float32(np.clip(1 - opening / 2, 0, 1))
        shut = lower[:, 1] < (upper + fade * line)[:, 1]
        lower = np.where(shut[:, np.newaxis], upper + fade * line, lower)
        box = self._box(upper, lower)
        if box is None or eye.gap < 2:
            return
        alpha = _opening(upper, lower, box)
        gaze = eye.width * np.array([pose.gaze_x, pose.gaze_y])
        shift = eye.centre.moved(weights)[0] - eye.centre.points[0] + gaze
        ball = _place(eye.ball, eye.origin, affine, shift, box, cv2.BORDER_REPLICATE)
        seen = np.float32(np.clip((opening - 0.5) / 2.5, 0, 1))
        ball = eye.lashes + seen * (ball - eye.lashes)
        self._blend(ball, alpha, box)

    def _draw_mouth(
        self,
        upper: FloatArray,
        lower: FloatArray,
        weights: FloatArray,
        affine: FloatArray,
        mouth: Mouth,
    ) -> None:
        rig = self._rig
        box = self._box(upper, lower)
        if box is None:
            return
        alpha = _opening(upper, lower, box)
        if not alpha.any():
            return
        inside, unit = rig.interior, rig.face.unit
        head = _shift(rig.mouth, weights)
        down = rig.face.axes[1] * unit
        jaw = head + down * (0.33 * weights[INDEX["jaw"]])
        left, top, right, bottom = box
        canvas = np.empty((bottom - top, right - left, 3), np.float32)
        canvas[:] = inside.dark
        tongue = jaw - down * (0.12 * mouth.tongue)
        for layer, shift in ((inside.tongue, tongue), (inside.lower, jaw), (inside.upper, head)):
            placed = _place(layer, inside.origin, affine, shift, box, cv2.BORDER_CONSTANT)
            canvas *= 1 - placed[..., 3:]
            canvas += placed[..., :3]
        # Rounded lips stand out before the teeth and shade them.
        canvas += 0.5 * mouth.pucker * (1 - mouth.upper) * (inside.dark - canvas)
        # Lips throw a shadow into the mouth; a thin opening is only the dark line between them.
        reach = max(3, int(0.09 * unit) | 1)
        cover = cv2.blur(alpha, (reach, reach), borderType=cv2.BORDER_CONSTANT)
        canvas[..., 0] = 16 + (canvas[..., 0] - 16) * (0.5 + 0.5 * np.minimum(cover * 1.2, 1))
        canvas = _thin_to(canvas, inside.seam, alpha, reach)
        self._blend(canvas, alpha, box)

    def _box(self, upper: FloatArray, lower: FloatArray) -> tuple[int, int, int, int] | None:
        """Even-aligned box around an opening, or None when it is shut or out of the picture."""
        if float(np.max(lower[:, 1] - upper[:, 1])) < 0.3:
            return None
        size = self._y.shape[0]
        points = np.concatenate([upper, lower])
        low = np.maximum(np.floor((points.min(axis=0) - 2) / 2).astype(int) * 2, 0)
        high = np.minimum(np.ceil((points.max(axis=0) + 3) / 2).astype(int) * 2, size)
        if (high - low).min() < 2:
            return None
        return int(low[0]), int(low[1]), int(high[0]), int(high[1])

    def _blend(self, yuv: FloatArray, alpha: FloatArray, box: tuple[int, int, int, int]) -> None:
        left, top, right, bottom = box
        y = self._y[top:bottom, left:right]
        y[:] = np.clip(y + alpha * (yuv[..., 0] - y) + 0.5, 0, 255)
        half = ((right - left) // 2, (bottom - top) // 2)
        colour = cv2.resize(yuv[..., 1:], half, interpolation=cv2.INTER_AREA)
        weight = cv2.resize(alpha, half, interpolation=cv2.INTER_AREA)
        for channel, plane in enumerate((self._u, self._v)):
            part = plane[top // 2 : bottom // 2, left // 2 : right // 2]
            part[:] = part + weight * (colour[..., channel] - part) + 0.5


def _remap(source: NDArray[Any], at: FloatArray) -> NDArray[Any]:
    """Sample an array at positions of shape (h, w, 2)."""
    # OpenCV takes None for a second map that is not needed; its type stubs do not say so.
    no_map = cast("NDArray[np.float32]", None)
    return cv2.remap(source, at, no_map, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def _part(
    window: tuple[int, int, int, int], outer: tuple[int, int, int, int]
) -> tuple[slice, slice]:
    """Rows and columns of a window inside another one."""
    return (
        slice(window[1] - outer[1], window[3] - outer[1]),
        slice(window[0] - outer[0], window[2] - outer[0]),
    )


def _invert(start: FloatArray, field: FloatArray, window: tuple[int, int, int, int]) -> FloatArray:
    """Where each grid point of a window comes from: solves q + field(q) = start."""
    origin = np.array(window[:2], np.float32)
    base = start - origin
    q = base
    for step in _STEPS:
        q = q + np.float32(step) * (base - q - _remap(field, q))
    return np.asarray(q + origin, np.float32)


def _upsample(grid: FloatArray, step: int) -> FloatArray:
    """Interpolate a grid to pixels, leaving out the outermost cells; shape (height, width, 2)."""
    height, width = grid.shape[:2]
    full = cv2.resize(grid, (width * step, height * step), interpolation=cv2.INTER_LINEAR)
    return np.asarray(full[step:-step, step:-step], np.float32)


def _apply(affine: FloatArray, points: FloatArray) -> FloatArray:
    return np.asarray(points @ affine[:, :2].T + affine[:, 2], np.float32)


def _shift(point: Curve, weights: FloatArray) -> FloatArray:
    return np.asarray(point.moved(weights)[0] - point.points[0], np.float32)


def _opening(upper: FloatArray, lower: FloatArray, box: tuple[int, int, int, int]) -> FloatArray:
    """Antialiased cover of the opening between two edges, 0 to 1."""
    left, top, right, bottom = box
    xs = np.arange(left, right)
    edges = [np.interp(xs, edge[:, 0], edge[:, 1]) for edge in (upper, lower)]
    edges[1][(xs < upper[0, 0]) | (xs > upper[-1, 0])] = -1e3
    ys = np.arange(top, bottom)[:, np.newaxis]
    inside = np.minimum(ys - edges[0], edges[1] - ys) + 0.5
    return np.clip(inside, 0, 1).astype(np.float32)


def _thin_to(yuv: FloatArray, line: FloatArray, alpha: FloatArray, reach: int) -> FloatArray:
    """Where an opening is thin, only the dark line between its edges is seen."""
    cover = cv2.blur(alpha, (reach, reach), borderType=cv2.BORDER_CONSTANT)
    wide = np.clip((cover - 0.15) / 0.3, 0, 1)[..., np.newaxis]
    return np.asarray(line + wide * (yuv - line), np.float32)


def _place(
    layer: FloatArray,
    origin: tuple[int, int],
    affine: FloatArray,
    shift: FloatArray,
    box: tuple[int, int, int, int],
    border: int,
) -> FloatArray:
    """Move a layer of the portrait, by a shift on the face and then with the head, into a box."""
    matrix = affine.astype(np.float64)
    matrix[:, 2] += matrix[:, :2] @ (np.array(origin) + shift) - np.array(box[:2])
    size = (box[2] - box[0], box[3] - box[1])
    return np.asarray(
        cv2.warpAffine(layer, matrix, size, flags=cv2.INTER_LINEAR, borderMode=border), np.float32
    )
