"""Hair as strands: roots on the skin, guides combed by a flow, children that follow a guide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from body import Body, Floats, Ints
from mathutils import Vector
from mathutils.bvhtree import BVHTree
from mathutils.kdtree import KDTree

Rng = np.random.Generator


@dataclass(frozen=True)
class Strands:
    """Curves of equally many points, shape (n, points, 3), with a radius at each root (n,)."""

    points: Floats
    radius: Floats


@dataclass(frozen=True)
class Skin:
    """The smoothed skin to grow on, and where its landmarks are (metres)."""

    tree: BVHTree
    vertices: Floats
    triangles: Ints
    eyes: Floats
    ear: Floats
    skull: Floats

    def sample(
        self, weight: Callable[[Floats], Floats], count: int, rng: Rng
    ) -> tuple[Floats, Floats]:
        """``count`` random points on the surface where ``weight`` (n, 3) → (n,) allows."""
        corners = self.vertices[self.triangles]
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        area = np.linalg.norm(normal, axis=1)
        chance = area * weight(corners.mean(axis=1))
        chosen = rng.choice(len(chance), size=count, p=chance / chance.sum())
        u, v = rng.random((2, count))
        flip = u + v > 1
        u, v = np.where(flip, 1 - u, u)[:, None], np.where(flip, 1 - v, v)[:, None]
        a, b, c = corners[chosen].transpose(1, 0, 2)
        return a + u * (b - a) + v * (c - a), unit(normal[chosen])

    def front(self, x: Floats, z: Floats) -> Floats:
        """Points of the face seen from the front at (x, z)."""
        hits = [
            self.tree.ray_cast(Vector((a, -1.0, b)), Vector((0, 1, 0)))[0]
            for a, b in zip(x, z, strict=True)
        ]
        return np.array([list(hit) if hit else [0.0, 0.0, 0.0] for hit in hits])


def unit(vectors: Floats) -> Floats:
    """Vectors of length 1."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12))


def smoothstep(x: Floats, low: float, high: float) -> Floats:
    """0 below ``low``, 1 above ``high``."""
    t = np.clip((x - low) / (high - low), 0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def scalp_weight(skin: Skin, line: float = 0.0) -> Callable[[Floats], Floats]:
    """Where hair grows: 0 to 1 over the hairline; ``line`` lifts the hairline in front."""
    degrees = np.array([0, 25, 42, 55, 66, 74, 84, 100, 115, 140, 180])
    heights = np.array([60, 58, 54, 40, 22, 8, 6, 2, -30, -52, -56]) / 1000
    lift = np.interp(degrees, [0, 45, 70], [line, line * 1.3, 0])

    def weight(points: Floats) -> Floats:
        azimuth = np.degrees(np.arctan2(np.abs(points[:, 0]), -(points[:, 1] - skin.skull[1])))
        edge = skin.eyes[2] + np.interp(azimuth, degrees, heights + lift)
        grown = smoothstep(points[:, 2] - edge, -0.002, 0.006)
        near_ear = np.linalg.norm((np.abs(points) - np.abs(skin.ear)) * [0.7, 1, 0.8], axis=1)
        low_neck = points[:, 2] > skin.eyes[2] - 0.075
        outer = np.abs(points[:, 0]) > np.abs(skin.ear[0]) - 0.016
        return np.asarray(grown * low_neck * np.where(outer & (near_ear < 0.030), 0.0, 1.0))

    return weight


def comb(
    skin: Skin,
    roots: Floats,
    normals: Floats,
    lengths: Floats,
    flow: Callable[[Floats, Floats, float], Floats],
    clearance: Callable[[Floats, float], Floats],
    points: int,
    stiffness: float,
    rise: float,
) -> Floats:
    """Grow guides from roots: each step turns towards the flow and stays off the skin."""
    place, heading = roots.copy(), unit(unit(flow(roots, roots, 0.0)) + rise * normals)
    path = [place.copy()]
    for index in range(1, points):
        s = index / (points - 1)
        heading = unit(heading * stiffness + unit(flow(place, roots, s)) * (1 - stiffness))
        place = place + heading * (lengths / (points - 1))[:, None]
        gap = clearance(roots, s)
        for i, spot in enumerate(place):
            hit, normal, _, _ = skin.tree.find_nearest(Vector(spot))
            if hit is None:
                continue
            away = np.array(normal)
            height = float((spot - np.array(hit)) @ away)
            if height < gap[i]:
                place[i] = spot + away * (gap[i] - height)
        path.append(place.copy())
    return np.stack(path, axis=1)


def children(
    guides: Floats,
    roots: Floats,
    rng: Rng,
    *,
    clump: float,
    frizz: float,
    radius: float,
    side: Callable[[Floats], Floats] | None = None,
    trim: float = 0.25,
) -> Strands:
    """Strands at ``roots`` that follow the nearest guides (of the same side of a parting)."""
    groups = [np.arange(len(guides))]
    mine = np.zeros(len(roots), dtype=int)
    if side is not None:
        of_guide = side(guides[:, 0])
        groups = [np.flatnonzero(of_guide <= 0), np.flatnonzero(of_guide > 0)]
        mine = (side(roots) > 0).astype(int)
    nearest = np.zeros((len(roots), 3), dtype=int)
    distance = np.zeros((len(roots), 3))
    for number, members in enumerate(groups):
        tree = KDTree(len(members))
        for i in members:
            tree.insert(Vector(guides[i, 0]), int(i))
        tree.balance()
        for j in np.flatnonzero(mine == number):
            found = tree.find_n(Vector(roots[j]), 3)
            nearest[j] = [f[1] for f in found]
            distance[j] = [f[2] for f in found]
    weight = 1 / (distance + 1e-4) ** 2
    weight /= weight.sum(axis=1, keepdims=True)
    shape = guides - guides[:, :1]
    s = np.linspace(0, 1, guides.shape[1])
    blended = np.einsum("nk,nkpd->npd", weight, shape[nearest])
    lead = shape[nearest[:, 0]]
    mix = (clump * s)[None, :, None]
    path = roots[:, None] + blended * (1 - mix) + lead * mix
    towards = (guides[nearest[:, 0], 0] - roots)[:, None] * (0.7 * clump * s**1.5)[None, :, None]
    path = path + towards
    wave = rng.normal(size=(len(roots), 3, 3)) * frizz
    phase = rng.random((len(roots), 3)) * 6.28
    for k, cycles in enumerate((0.7, 1.9, 4.0)):
        ripple = np.sin(cycles * 6.28 * s[None] + phase[:, k : k + 1]) * s[None] / (k + 1)
        path = path + ripple[:, :, None] * wave[:, k][:, None]
    keep = 1 - trim * rng.random(len(roots)) ** 2
    grid = s[None] * keep[:, None] * (len(s) - 1)
    low = np.minimum(grid.astype(int), len(s) - 2)
    part = (grid - low)[:, :, None]
    rows = np.arange(len(roots))[:, None]
    path = path[rows, low] * (1 - part) + path[rows, low + 1] * part
    return Strands(path, radius * (0.75 + 0.5 * rng.random(len(roots))))


def brows(skin: Skin, body: Body, density: float, shape: str, rng: Rng) -> Strands:
    """Eyebrow hairs: upright at the nose, lying outwards to the tail."""
    outward = np.array([-17.0, -9, 0, 9, 17, 24.5, 28.5]) / 1000
    upward = np.array([15.6, 16.8, 18.2, 19.4, 19.2, 16.8, 14.4]) / 1000
    if shape == "straight":
        upward = np.array([15.4, 16.4, 17.2, 17.8, 17.4, 15.4, 13.6]) / 1000
    half = np.array([1.5, 2.7, 3.1, 2.9, 2.3, 1.4, 0.6]) / 1000
    paths = []
    for side, group in ((1, "helper-l-eye"), (-1, "helper-r-eye")):
        eye = body.centre(group)
        count = int(520 * density)
        t = rng.beta(1.35, 1.25, count) * (len(outward) - 1)
        knots = np.arange(len(outward))
        across = np.clip(rng.normal(0, 0.55, count), -1, 1)
        dx = np.interp(t, knots, outward)
        dz = np.interp(t, knots, upward) + across * np.interp(t, knots, half)
        slope = np.interp(t, knots, [62, 46, 28, 14, -8, -24, -34]) - across * 16
        slope = np.radians(slope + rng.normal(0, 7, count))
        length = (
            np.interp(t, knots, [5.0, 6.5, 7, 7, 6.5, 5.5, 4.0])
            / 1000
            * rng.uniform(0.7, 1.15, count)
        )
        spots = []
        for u in np.linspace(0, 1, 6):
            turn = slope - u * 0.35
            x = eye[0] + side * (dx + np.cos(turn) * length * u)
            z = eye[2] + dz + np.sin(turn) * length * u
            point = skin.front(x, z)
            point[:, 1] -= 0.0004 + 0.0009 * np.sin(np.pi * u * 0.8)
            spots.append(point)
        paths.append(np.stack(spots, axis=1))
    points = np.concatenate(paths)
    return Strands(points, np.full(len(points), 0.000105) * rng.uniform(0.7, 1.2, len(points)))


def lashes(skin: Skin, body: Body, length: float, rng: Rng) -> Strands:
    """Eyelashes along the helper strips of the base mesh, curved away from the eye."""
    paths = []
    for side in ("l", "r"):
        eye = body.centre(f"helper-{side}-eye")
        for lid in ("1", "2"):
            group = f"helper-{side}-eyelashes-{lid}"
            members = body.groups[group]
            far = {int(i): skin.tree.find_nearest(Vector(body.vertices[i]))[3] for i in members}
            edges = {
                tuple(sorted((face[k], face[(k + 1) % len(face)])))
                for face in body.group_faces[group]
                for k in range(len(face))
            }
            middle = np.median(list(far.values()))
            pairs = []
            for a, b in edges:
                if (far[a] > middle) != (far[b] > middle):
                    pairs.append((a, b) if far[a] < far[b] else (b, a))
            roots = body.vertices[[p[0] for p in pairs]]
            tips = body.vertices[[p[1] for p in pairs]]
            # From the inner to the outer corner; the inner quarter has hardly any lashes.
            order = np.argsort(np.abs(roots[:, 0]))
            roots, tips = roots[order], tips[order]
            upper = roots[:, 2].mean() > eye[2]
            count = 150 if upper else 44
            t = rng.uniform(0.16 if upper else 0.3, 0.97 if upper else 0.92, count)
            t *= len(roots) - 1
            low = np.minimum(t.astype(int), len(roots) - 2)
            part = (t - low)[:, None]
            start = roots[low] * (1 - part) + roots[low + 1] * part
            reach = tips[low] * (1 - part) + tips[low + 1] * part - start
            size = (1.0 if upper else 0.6) * length * rng.uniform(0.75, 1.15, count)[:, None]
            reach = reach * size + rng.normal(0, 0.0004, reach.shape)
            curl = np.array([0, -0.0002, 0.0022 if upper else -0.0008]) * size
            u = np.linspace(0, 1, 6)[None, :, None]
            paths.append(start[:, None] + reach[:, None] * u + curl[:, None] * u**2)
    points = np.concatenate(paths)
    return Strands(points, np.full(len(points), 0.000085))
