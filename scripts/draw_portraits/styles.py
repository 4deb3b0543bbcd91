"""Hairstyles: how long, which way and how far from the skin the strands of a style lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from body import Floats
from strands import Rng, Skin, Strands, children, comb, scalp_weight, smoothstep, unit

GUIDES = 1400


def scalp_hair(skin: Skin, style: str, rng: Rng) -> tuple[Strands, Callable[[Floats], Floats]]:
    """Strands of a style, and its scalp weight (for the skin's colour under the hair)."""
    return STYLES[style](skin, rng)


def _grow(
    skin: Skin,
    rng: Rng,
    weight: Callable[[Floats], Floats],
    count: int,
    length: Callable[[Floats], Floats],
    flow: Callable[[Floats, Floats, float], Floats],
    clearance: Callable[[Floats, float], Floats],
    *,
    points: int = 14,
    stiffness: float = 0.55,
    rise: float = 0.5,
    clump: float = 0.5,
    frizz: float = 0.0012,
    radius: float = 0.00013,
    side: Callable[[Floats], Floats] | None = None,
    trim: float = 0.25,
) -> Strands:
    roots, normals = skin.sample(weight, GUIDES, rng)
    sizes = length(roots) * rng.uniform(0.88, 1.08, GUIDES)
    guides = comb(skin, roots, normals, sizes, flow, clearance, points, stiffness, rise)
    seeds, _ = skin.sample(weight, count, rng)
    return children(
        guides, seeds, rng, clump=clump, frizz=frizz, radius=radius, side=side, trim=trim
    )


def _layers(rng: Rng, depth: float, near: float = 0.001) -> Callable[[Floats, float], Floats]:
    """Each guide keeps its own height off the skin, so that the hair has volume."""
    share = rng.random(GUIDES)
    return lambda roots, s: near + depth * (0.25 + 0.75 * share) * min(1.0, 0.45 + s * 5)


def _falling(
    skin: Skin,
    rng: Rng,
    length: float,
    part: float,
    volume: float,
    ends_in: float,
    tuck: float,
    frizz: float = 0.0016,
) -> tuple[Strands, Callable[[Floats], Floats]]:
    """Hair parted at x = ``part`` that falls beside the face, behind the cheeks."""
    weight = scalp_weight(skin)
    ear_y = skin.ear[1]

    width = skin.ear[0]

    def flow(p: Floats, roots: Floats, s: float) -> Floats:
        sign = np.where(roots[:, 0] > part, 1.0, -1.0)
        inside = 1 - smoothstep(sign * p[:, 0], width - 0.05, width - 0.012)
        front = smoothstep(ear_y - 0.005 - p[:, 1], 0.0, 0.05)
        low = smoothstep(skin.eyes[2] - 0.055 - p[:, 2], 0.0, 0.06)
        # Hair of the back of the head falls straight down behind the neck.
        behind = smoothstep(roots[:, 1] - ear_y, 0.0, 0.03)
        side = sign * (1.1 * inside * (1 - low) * (1 - behind) - ends_in * low)
        back = tuck * front + 0.12 * inside * (1 - behind) + 0.5 * behind * (1 - low)
        down = -(0.12 + 1.0 * np.maximum(1 - inside, behind))
        return np.stack([side, back, down], axis=1)

    def size(roots: Floats) -> Floats:
        high = smoothstep(roots[:, 2] - skin.eyes[2], -0.05, 0.11)
        return length * (0.58 + 0.42 * high)

    strands = _grow(
        skin,
        rng,
        weight,
        44000,
        size,
        flow,
        _layers(rng, volume, 0.003),
        points=15,
        stiffness=0.55,
        rise=0.2,
        clump=0.62,
        frizz=frizz,
        side=lambda r: r[:, 0] - part,
        trim=0.18,
    )
    return strands, weight


def bob(skin: Skin, rng: Rng) -> tuple[Strands, Callable[[Floats], Floats]]:
    """Chin-length, side parting."""
    return _falling(skin, rng, 0.255, -0.018, 0.009, 0.35, 0.75)


def long(skin: Skin, rng: Rng) -> tuple[Strands, Callable[[Floats], Floats]]:
    """To the shoulders, straight, parted in the middle."""
    return _falling(skin, rng, 0.27, 0.006, 0.008, 0.25, 0.95)


def wavy(skin: Skin, rng: Rng) -> tuple[Strands, Callable[[Floats], Floats]]:
    """A soft, full, chin-length cut, parted on the side."""
    return _falling(skin, rng, 0.205, 0.022, 0.018, 0.45, 0.55, frizz=0.0035)


def tied(skin: Skin, rng: Rng) -> tuple[Strands, Callable[[Floats], Floats]]:
    """Combed back loosely into a knot behind the head."""
    weight = scalp_weight(skin)
    knot = np.array([0.0, skin.skull[1] + 0.10, skin.eyes[2] + 0.045])

    def flow(p: Floats, roots: Floats, s: float) -> Floats:
        lift = smoothstep(roots[:, 2] - skin.eyes[2], 0.04, 0.10) * (1 - s) * 0.5
        return unit(knot - p) + np.stack([0 * s + 0 * lift, 0 * lift, lift], axis=1)

    def size(roots: Floats) -> Floats:
        return np.linalg.norm(knot - roots, axis=1) * 1.25

    strands = _grow(
        skin,
        rng,
        weight,
        44000,
        size,
        flow,
        _layers(rng, 0.011, 0.002),
        points=16,
        stiffness=0.5,
        clump=0.55,
        frizz=0.0012,
        trim=0.1,
    )
    return strands, weight


def _short(
    skin: Skin,
    rng: Rng,
    top: float,
    sides: float,
    direction: Floats,
    lift: float,
    line: float,
    clump: float,
    frizz: float,
) -> tuple[Strands, Callable[[Floats], Floats]]:
    weight = scalp_weight(skin, line)

    def size(roots: Floats) -> Floats:
        high = smoothstep(roots[:, 2] - skin.eyes[2], 0.045, 0.085)
        return sides + (top - sides) * high

    def flow(p: Floats, roots: Floats, s: float) -> Floats:
        out = unit(roots - skin.skull)
        high = smoothstep(roots[:, 2] - skin.eyes[2], 0.04, 0.085)[:, None]
        down = np.array([0.0, 0.55, -0.85])
        heading = direction * high + down * (1 - high)
        return heading + out * (lift * high + 0.22 * (1 - high)) * (1 - 0.4 * s)

    strands = _grow(
        skin,
        rng,
        weight,
        46000,
        size,
        flow,
        _layers(rng, 0.004, 0.0005),
        points=10,
        stiffness=0.5,
        rise=1.0,
        clump=clump,
        frizz=frizz,
        radius=0.00012,
        trim=0.35,
    )
    return strands, weight


def swept(skin: Skin, rng: Rng) -> tuple[Strands, Callable[[Floats], Floats]]:
    """Short sides, longer top swept up and to one side."""
    return _short(skin, rng, 0.038, 0.012, np.array([0.8, 0.35, 0.1]), 0.6, 0.006, 0.6, 0.0014)


def brushed(skin: Skin, rng: Rng) -> tuple[Strands, Callable[[Floats], Floats]]:
    """Combed back, higher hairline at the temples."""
    return _short(skin, rng, 0.045, 0.014, np.array([-0.25, 0.9, 0.05]), 0.55, 0.012, 0.5, 0.0012)


def crop(skin: Skin, rng: Rng) -> tuple[Strands, Callable[[Floats], Floats]]:
    """Short all over, textured forwards."""
    return _short(skin, rng, 0.028, 0.010, np.array([0.25, -0.45, 0.35]), 0.9, 0.002, 0.5, 0.0012)


def _coils(
    skin: Skin, rng: Rng, length: float, side_length: float, turns: float, width: float
) -> tuple[Strands, Callable[[Floats], Floats]]:
    weight = scalp_weight(skin, 0.002)
    count, points = 42000, 16
    roots, normals = skin.sample(weight, count, rng)
    high = smoothstep(roots[:, 2] - skin.eyes[2], -0.01, 0.07)
    size = (side_length + (length - side_length) * high) * rng.uniform(0.65, 1.05, count)
    heading = unit(normals + rng.normal(0, 0.16, normals.shape) + [0.0, 0.0, 0.18])
    across = unit(np.cross(heading, rng.normal(size=heading.shape)))
    third = np.cross(heading, across)
    s = np.linspace(0, 1, points)
    angle = turns * 6.28 * s[None] + rng.random((count, 1)) * 6.28
    grown = np.minimum(1.0, s * 4)[None]
    spiral = (np.cos(angle) * grown)[:, :, None] * across[:, None]
    spiral = (spiral + (np.sin(angle) * grown)[:, :, None] * third[:, None]) * width
    path = roots[:, None] + heading[:, None] * (size[:, None] * s[None])[:, :, None] + spiral
    return Strands(path, np.full(count, 0.00013)), weight


def afro(skin: Skin, rng: Rng) -> tuple[Strands, Callable[[Floats], Floats]]:
    """Round natural coils."""
    return _coils(skin, rng, 0.045, 0.034, 2.4, 0.0032)


def cropped_coils(skin: Skin, rng: Rng) -> tuple[Strands, Callable[[Floats], Floats]]:
    """Short coils with closely cut sides."""
    return _coils(skin, rng, 0.013, 0.004, 1.6, 0.0016)


STYLES = {
    "bob": bob,
    "long": long,
    "wavy": wavy,
    "tied": tied,
    "swept": swept,
    "brushed": brushed,
    "crop": crop,
    "afro": afro,
    "coils": cropped_coils,
}


def beard(skin: Skin, mouth: Floats, rng: Rng) -> Strands:
    """A short boxed beard and moustache, clear of the lips."""

    def weight(points: Floats) -> Floats:
        x, z = np.abs(points[:, 0]), points[:, 2] - mouth[2]
        cheek = np.interp(
            x, [0, 0.012, 0.03, 0.05, 0.066, 0.075], [0.014, 0.013, 0.004, 0.012, 0.04, 0.06]
        )
        below = smoothstep(cheek - z, -0.003, 0.006)
        lips = (x / 0.027) ** 2 + (z / np.where(z > 0, 0.0095, 0.0125)) ** 2
        front = points[:, 1] < skin.ear[1] - 0.012
        throat = smoothstep(z + 0.07 - 0.25 * np.maximum(0, points[:, 1] - mouth[1]), -0.01, 0.01)
        return np.asarray(below * throat * front * (lips > 1) * (z > -0.09))

    def flow(p: Floats, roots: Floats, s: float) -> Floats:
        return np.stack(
            [0.35 * np.sign(roots[:, 0]), np.full(len(p), -0.25), np.full(len(p), -1.0)], axis=1
        )

    return _grow(
        skin,
        rng,
        weight,
        16000,
        lambda r: np.full(len(r), 0.009),
        flow,
        _layers(rng, 0.002, 0.0003),
        points=8,
        stiffness=0.6,
        clump=0.25,
        frizz=0.0010,
        radius=0.00010,
        trim=0.4,
    )
