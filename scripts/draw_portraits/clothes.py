"""A pullover: the skin below a neckline, moved outwards and smoothed, with a collar."""

from __future__ import annotations

from typing import Any

import bmesh
import bpy
import materials
import numpy as np
from body import Floats
from mathutils import Vector
from people import Person

NECKLINES = {
    # depth of the front edge below the eyes, height of the back over the front per metre
    "crew": (0.178, 0.75),
    "scoop": (0.192, 0.70),
}


def add(skin: Any, eyes: Floats, person: Person) -> None:
    """Dress the shoulders."""
    depth, tilt = NECKLINES[person.neckline]
    graph = bpy.context.evaluated_depsgraph_get()
    shape = bmesh.new()
    shape.from_mesh(skin.evaluated_get(graph).to_mesh())
    front = min(
        v.co.y for v in shape.verts if abs(v.co.x) < 0.01 and abs(v.co.z - eyes[2] + depth) < 0.01
    )
    normal = Vector((0.0, -tilt, 1.0)).normalized()
    bmesh.ops.bisect_plane(
        shape,
        geom=[*shape.verts, *shape.edges, *shape.faces],
        plane_co=Vector((0.0, front, eyes[2] - depth)),
        plane_no=normal,
        clear_outer=True,
    )
    mesh = bpy.data.meshes.new("cloth")
    shape.normal_update()
    offset = 0.0075
    for vertex in shape.verts:
        vertex.co += vertex.normal * offset
    for _ in range(12):
        bmesh.ops.smooth_vert(
            shape,
            verts=[v for v in shape.verts if not v.is_boundary],
            factor=0.5,
            use_axis_x=True,
            use_axis_y=True,
            use_axis_z=True,
        )
    rim = [
        e
        for e in shape.edges
        if e.is_boundary
        and max(v.co.z for v in e.verts) > eyes[2] - depth - 0.05
        and max(abs(v.co.x) for v in e.verts) < 0.13
    ]
    loop = _ordered(rim)
    shape.to_mesh(mesh)
    shape.free()
    mesh.shade_smooth()
    material = materials.cloth_material(person.cloth, person.knit)
    mesh.materials.append(material)
    item = bpy.data.objects.new("cloth", mesh)
    bpy.context.scene.collection.objects.link(item)
    collar = bpy.data.curves.new("collar", "CURVE")
    collar.dimensions = "3D"
    collar.bevel_depth = 0.0052
    collar.bevel_resolution = 4
    spline = collar.splines.new("POLY")
    spline.use_cyclic_u = True
    spline.points.add(len(loop) - 1)
    smooth = np.array(loop)
    for _ in range(8):
        smooth = (np.roll(smooth, 1, 0) + smooth * 2 + np.roll(smooth, -1, 0)) / 4
    for point, place in zip(spline.points, smooth, strict=True):
        point.co = (*place, 1.0)
    collar.materials.append(material)
    ring = bpy.data.objects.new("collar", collar)
    ring.scale = (1.0, 1.0, 1.0)
    bpy.context.scene.collection.objects.link(ring)


def _ordered(edges: list[Any]) -> list[list[float]]:
    """The places along a closed loop of edges."""
    links: dict[Any, list[Any]] = {}
    for edge in edges:
        a, b = edge.verts
        links.setdefault(a, []).append(b)
        links.setdefault(b, []).append(a)
    start = here = edges[0].verts[0]
    before = None
    places = []
    while True:
        places.append(list(here.co))
        onward = [v for v in links[here] if v is not before]
        before, here = here, onward[0] if onward else start
        if here is start or len(places) > len(links):
            return places
