"""Displacement fields: where each point of the face goes when a control is at 1.

The face is slit at the mouth and at both eyes. What lies above a slit moves by the *upper* field,
what lies below by the *lower* one; away from the slits the two agree. So lips part and lids close
without one side's texture being smeared over the other's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e3rg.stages.avatar import landmarks as lm
from e3rg.stages.avatar.landmarks import FaceFrame

FloatArray = NDArray[np.floating[Any]]

# Two constant fields undo what the portrait's own mouth does: "close" shuts parted lips (held at
# 1), "unsmile" takes back a smile (less of it, the happier the face should look).
CONTROLS = (
    "close", "unsmile", "yaw", "pitch", "breath",
    "jaw", "upper", "lower", "width", "thick_upper", "thick_lower",
    "corner_right", "corner_left", "cheek", "nose", "chin", "purse",
    "brow_inner", "brow_outer", "brow_lower", "brow_squeeze", "lid", "squint",
)  # fmt: skip
INDEX = {name: i for i, name in enumerate(CONTROLS)}

# Reach of one unit of a control, as a fraction of the distance between the eyes (63 mm on a
# person): a fully open jaw parts the lips by 22 mm.
_JAW, _UPPER, _LOWER, _WIDTH, _CORNER = 0.35, 0.085, 0.085, 0.11, 0.13


@dataclass(frozen=True, slots=True)
class Eye:
    """One eye in units of the face, origin at its centre: both lids over x, and the brow above.

    Attributes:
        centre: pixels.
        upper, lower: shape (n, 2), lid edges.
        brow: distance from the middle of the upper lid up to the brow.
    """

    centre: FloatArray
    upper: FloatArray
    lower: FloatArray
    brow: float

    @property
    def gap(self) -> float:
        """Greatest opening."""
        return float(np.max(self.lower[:, 1] - self.upper[:, 1]))


class FieldBuilder:
    """Evaluates all fields at given points of a portrait."""

    def __init__(self, landmarks: FloatArray, face: FaceFrame) -> None:
        self.face = face
        self._landmarks = landmarks
        self.eyes = tuple(self._eye(side) for side in (0, 1))
        seam = (face.upper + face.lower) / 2
        middle = len(seam) // 2
        gap = np.maximum(face.lower[:, 1] - face.upper[:, 1], 0.0)
        self.mouth_gap = np.where(gap.max() > lm.CLOSED, gap, 0.0).astype(np.float32)
        lift = float(seam[middle, 1]) - float(seam[[0, -1], 1].mean())
        self.smile_lift = max(0.0, lift - 0.03)
        self.smile_width = max(0.0, face.half - 0.40)

    def at(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Fields at pixels of shape (n, 2).

        Returns:
            upper and lower fields, each of shape (controls, 2, n), in pixels.
        """
        upper = np.zeros((len(CONTROLS), 2, len(points)), np.float32)
        lower = np.zeros_like(upper)

        def put(name: str, field: FloatArray, below: FloatArray | None = None) -> None:
            upper[INDEX[name]] = field
            lower[INDEX[name]] = field if below is None else below

        self._head(points, put)
        self._mouth(points, put)
        # The lower fields are also used under the eyes: there, they must know nothing of lips.
        p = self.face.local(points, self.face.mouth)
        from_lip = p[:, 1] - np.interp(p[:, 0], self.face.lower[:, 0], self.face.lower[:, 1])
        near = 1 - _smooth((-from_lip - 0.12) / 0.22)
        lower[:] = upper + near * (lower - upper)
        far = _smooth((from_lip - 0.15) / 0.35)
        upper[:] += far * (lower - upper)
        self._brows(points, put)
        self._lids(points, put)
        return upper, lower

    def _eye(self, side: int) -> Eye:
        xy = self._landmarks[:, :2]
        centre = self.face.eyes[side]

        def local(index: tuple[int, ...]) -> FloatArray:
            return self.face.local(xy[list(index)], centre)

        upper, lower = local(lm.EYES_UPPER[side]), local(lm.EYES_LOWER[side])
        brow = local(lm.BROWS_LOWER[side])
        return Eye(centre, upper, lower, max(float(upper[:, 1].min() - brow[:, 1].mean()), 0.1))

    def _bump(
        self, points: FloatArray, index: tuple[int, ...], sx: float, sy: float, offset: float = 0.0
    ) -> FloatArray:
        """Gaussian around the mean of some landmarks; sizes in units of the face."""
        centre = self._landmarks[list(index), :2].mean(axis=0)
        p = self.face.local(points, centre)
        return np.asarray(np.exp(-((p[:, 0] / sx) ** 2) - ((p[:, 1] - offset) / sy) ** 2), "f4")

    def _head(self, points: FloatArray, put: Callable[..., None]) -> None:
        face = self.face
        depth, cover = _depth(points, self._landmarks, face)
        zero = np.zeros_like(depth)
        # One unit is one radian: a point moves by its depth before the head's centre.
        put("yaw", face.vector(depth * cover, zero))
        put("pitch", face.vector(zero, depth * cover))
        p = face.local(points, face.mouth)
        below = p[:, 1] - face.chin
        chest = np.exp(-((p[:, 0] / 1.1) ** 2)) * _smooth((below - 0.1) / 0.7)
        chest = chest * (1 - _smooth((below - 0.9) / 0.9))
        put("breath", face.vector(zero, np.asarray(-0.014 * chest, np.float32)))

    def _mouth(self, points: FloatArray, put: Callable[..., None]) -> None:
        face = self.face
        p = face.local(points, face.mouth)
        x, y = p[:, 0], p[:, 1]
        u = x / face.half
        au = np.abs(u)
        above = y - np.interp(x, face.upper[:, 0], face.upper[:, 1])  # from the upper lip's edge
        below = y - np.interp(x, face.lower[:, 0], face.lower[:, 1])
        v = below / face.chin
        zero = np.zeros_like(x)
        between = np.clip(1 - au * au, 0, None)  # 1 in the middle, 0 from the corners outwards
        inner = np.exp(-((u / 0.85) ** 4))
        over = np.exp(-((np.minimum(above, 0) / 0.20) ** 2))  # fades upwards, towards the nose

        gap = np.interp(x, face.lower[:, 0], self.mouth_gap, left=0, right=0)
        fade = np.exp(-((np.maximum(below, 0) / 0.35) ** 2))
        put(
            "close",
            face.vector(zero, 0.33 * gap * over),
            face.vector(zero, -0.75 * gap * fade),
        )

        def spread(d: FloatArray, amount: float) -> FloatArray:
            return np.asarray(
                amount * u * np.exp((1 - u * u) / 2) * np.exp(-((d / 0.34) ** 2)), np.float32
            )

        def corner(d: FloatArray, side: float) -> FloatArray:
            return np.asarray(
                np.exp(-(((u - side) / 0.75) ** 2) - ((d + 0.04) / 0.24) ** 2), np.float32
            )

        def both(d: FloatArray) -> FloatArray:
            return corner(d, -1.05) + corner(d, 1.05)

        unsmile = [
            face.vector(spread(d, -0.6 * self.smile_width), 0.95 * self.smile_lift * both(d))
            for d in (above, below)
        ]
        put("unsmile", *unsmile)
        put("width", *(face.vector(spread(d, _WIDTH), zero) for d in (above, below)))
        for name, side in (("corner_right", -1.05), ("corner_left", 1.05)):
            put(
                name,
                *(
                    face.vector(
                        np.sign(side) * 0.45 * _CORNER * corner(d, side), -_CORNER * corner(d, side)
                    )
                    for d in (above, below)
                ),
            )

        soft = [
            _JAW * 0.16 * np.exp(-(((au - 1.1) / 0.4) ** 2) - ((d - 0.05) / 0.25) ** 2)
            for d in (above, below)
        ]
        reach = 1 + 1.3 * _smooth(v / 0.8)
        lens = np.clip(1 - (au / reach) ** 2, 0, None) ** (0.7 + 1.3 * _smooth(v / 0.6))
        lens = lens * (1 - _smooth((v - 1.0) / 0.75))
        put("jaw", face.vector(zero, soft[0]), face.vector(zero, soft[1] + _JAW * lens))

        put("upper", face.vector(zero, -_UPPER * between**0.8 * over), face.vector(zero, zero))
        put("lower", face.vector(zero, zero), face.vector(zero, _LOWER * between**0.8 * fade))
        thick_u = -0.6 * face.lip_upper * _hump(np.maximum(-above, 0) / face.lip_upper) * inner
        thick_l = 0.6 * face.lip_lower * _hump(np.maximum(below, 0) / face.lip_lower) * inner
        put("thick_upper", face.vector(zero, thick_u), face.vector(zero, zero))
        put("thick_lower", face.vector(zero, zero), face.vector(zero, thick_l))

        # Rounded lips seal at the sides, so that the opening is small and round.
        sides = np.exp(-(((au - 0.78) / 0.3) ** 2)) * between**0.4 * fade
        put("purse", face.vector(zero, zero), face.vector(zero, -0.055 * sides))

        boss = np.exp(-((u / 1.1) ** 2)) * np.exp(-(((below - 0.45 * face.chin) / 0.3) ** 2))
        boss = boss * _smooth(below / 0.12)
        put("chin", face.vector(zero, zero), face.vector(zero, np.asarray(-0.06 * boss, "f4")))

    def _brows(self, points: FloatArray, put: Callable[..., None]) -> None:
        face = self.face
        n = len(points)
        fields = {
            name: np.zeros((2, n), np.float32)
            for name in ("brow_inner", "brow_outer", "brow_lower", "brow_squeeze", "cheek", "nose")
        }
        for side, eye in enumerate(self.eyes):
            inwards = 1.0 if side == 0 else -1.0
            p = face.local(points, eye.centre)
            # The lids keep their shape when the brow moves: the skin between takes it up.
            lid = np.interp(p[:, 0], eye.upper[:, 0], eye.upper[:, 1])
            free = _smooth(((lid - p[:, 1]) / eye.brow - 0.22) / 0.65)
            inner = free * self._bump(
                points, (lm.BROWS_UPPER[side][4], lm.BROWS_LOWER[side][4]), 0.24, 0.30, -0.03
            )
            outer = free * self._bump(
                points, (lm.BROWS_UPPER[side][1], lm.BROWS_LOWER[side][1]), 0.30, 0.30, -0.03
            )
            middle = free * self._bump(
                points, (lm.BROWS_UPPER[side][2], lm.BROWS_LOWER[side][2]), 0.30, 0.28, -0.03
            )
            zero = np.zeros(n, np.float32)
            fields["brow_inner"] += face.vector(zero, -0.12 * inner)
            fields["brow_outer"] += face.vector(zero, -0.11 * outer)
            fields["brow_lower"] += face.vector(zero, 0.085 * (0.95 * inner + 0.55 * middle))
            fields["brow_squeeze"] += face.vector(inwards * 0.055 * inner, zero)
            cheek = self._bump(points, (lm.CHEEKS[side],), 0.33, 0.24)
            fields["cheek"] += face.vector(-inwards * 0.02 * cheek, -0.065 * cheek)
            wing = self._bump(points, (lm.NOSE_SIDES[side],), 0.17, 0.20)
            fields["nose"] += face.vector(zero, -0.06 * wing)
        for name, field in fields.items():
            put(name, field)

    def _lids(self, points: FloatArray, put: Callable[..., None]) -> None:
        face = self.face
        upper = np.zeros((2, len(points)), np.float32)
        squint_upper, squint_lower, lower = (np.zeros_like(upper) for _ in range(3))
        for eye in self.eyes:
            p = face.local(points, eye.centre)
            x, y = p[:, 0], p[:, 1]
            top = np.interp(x, eye.upper[:, 0], eye.upper[:, 1])
            bottom = np.interp(x, eye.lower[:, 0], eye.lower[:, 1])
            opening = np.clip(bottom - top, 0, None)
            opening *= (x > eye.upper[0, 0]) & (x < eye.upper[-1, 0])
            reach = max(1.3 * eye.gap, 0.16)
            # Flat at the lid's edge, so that lashes move as one; the fold above it unrolls.
            hold = 1 - _smooth(((top - y) / eye.brow - 0.12) / 0.95)
            hold = hold * (1 - _smooth((y - bottom) / reach))
            rise = 1 - _smooth((y - bottom) / reach)
            rise = rise * (1 - _smooth((top - y) / (0.8 * eye.brow)))
            zero = np.zeros_like(x)
            upper += face.vector(zero, 1.0 * opening * hold)
            lower += face.vector(zero, -0.15 * opening * rise)
            squint_upper += face.vector(zero, 0.18 * opening * hold)
            squint_lower += face.vector(zero, -0.32 * opening * rise)
        put("lid", upper, lower)
        put("squint", squint_upper, squint_lower)


def _depth(
    points: FloatArray, landmarks: FloatArray, face: FaceFrame
) -> tuple[FloatArray, FloatArray]:
    """Depth towards the viewer, and how surely a point lies on the face; 0 far from it."""
    oval = landmarks[list(lm.FACE_OVAL)]
    z = -(landmarks[:, 2] - oval[:, 2].mean()) / face.unit
    total = np.zeros(len(points), np.float32)
    weight = np.zeros_like(total)
    for start in range(0, len(landmarks), 64):
        part = landmarks[start : start + 64]
        offset = (points[:, np.newaxis] - part[np.newaxis, :, :2]) / (0.2 * face.unit)
        kernel = np.exp(-(offset**2).sum(axis=2))
        total += kernel @ z[start : start + 64]
        weight += kernel.sum(axis=1)
    depth = total / (weight + 0.02)
    centre = oval[:, :2].mean(axis=0)
    radius = np.abs(face.local(oval[:, :2], centre)).max(axis=0)
    p = face.local(points, centre) / radius
    cover = 1 - _smooth((np.hypot(p[:, 0], p[:, 1]) - 0.8) / 0.7)
    return np.asarray(depth, np.float32), np.asarray(cover, np.float32)


def _smooth(x: FloatArray) -> FloatArray:
    """Smoothstep: 0 below 0, 1 above 1."""
    t = np.clip(x, 0, 1)
    return np.asarray(t * t * (3 - 2 * t), np.float32)


def _hump(x: FloatArray) -> FloatArray:
    """0 at 0, 1 at 1, fading beyond."""
    return np.asarray(x * np.exp((1 - x * x) / 2), np.float32)
