"""The studio: a body, soft lights and a long lens, rendered by Cycles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from body import Assets, Body, Floats
from materials import Nodes, linear, skin_material
from mathutils import Vector
from mathutils.bvhtree import BVHTree
from people import Person
from strands import Strands

LENS_MM = 126.0
SENSOR_MM = 36.0
DISTANCE_M = 1.35
EYE_LEVEL = 0.575
"""Height of the eyes in the picture, as a fraction from its lower edge."""


def mesh_object(name: str, vertices: Floats, faces: Any, material: Any) -> Any:
    """A smooth-shaded mesh in the scene."""
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(vertices.tolist(), [], [list(map(int, face)) for face in faces])
    mesh.shade_smooth()
    mesh.materials.append(material)
    item = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(item)
    return item


def compact(vertices: Floats, faces: Any) -> tuple[Floats, Any, Any]:
    """Drop vertices that no face uses; returns vertices, faces and the kept indices."""
    kept, inverse = np.unique(faces, return_inverse=True)
    return vertices[kept], inverse.reshape(np.shape(faces)), kept


def add_skin(body: Body, person: Person, assets: Assets, masks: dict[str, Floats]) -> Any:
    """The head, neck and shoulders; masks are per-vertex weights for the skin's colours."""
    vertices, faces, kept = compact(body.vertices, body.quads)
    item = mesh_object("skin", vertices, faces, skin_material(person, assets.root / "textures"))
    layer = item.data.uv_layers.new(name="uv")
    layer.data.foreach_set("uv", body.uv.reshape(-1).tolist())
    for name, weights in masks.items():
        attribute = item.data.attributes.new(name, "FLOAT", "POINT")
        attribute.data.foreach_set("value", weights[kept].tolist())
    modifier = item.modifiers.new("smooth", "SUBSURF")
    modifier.levels = modifier.render_levels = 2
    return item


def set_scalp(item: Any, weight: Callable[[Floats], Floats], person: Person) -> None:
    """Darken the skin under the hair, as dense roots do."""
    places = np.empty(len(item.data.vertices) * 3)
    item.data.vertices.foreach_get("co", places)
    attribute = item.data.attributes.new("scalp", "FLOAT", "POINT")
    attribute.data.foreach_set(
        "value", (weight(places.reshape(-1, 3)) * person.scalp_strength).tolist()
    )


def surface(item: Any) -> tuple[BVHTree, Floats, Any]:
    """The smoothed mesh of an object: search tree, vertices (n, 3) and triangles (m, 3)."""
    graph = bpy.context.evaluated_depsgraph_get()
    mesh = item.evaluated_get(graph).to_mesh()
    mesh.calc_loop_triangles()
    vertices = np.empty(len(mesh.vertices) * 3)
    mesh.vertices.foreach_get("co", vertices)
    triangles = np.empty(len(mesh.loop_triangles) * 3, dtype=np.int64)
    mesh.loop_triangles.foreach_get("vertices", triangles)
    vertices, triangles = vertices.reshape(-1, 3), triangles.reshape(-1, 3)
    tree = BVHTree.FromPolygons([Vector(v) for v in vertices], triangles.tolist())
    return tree, vertices, triangles


def add_eye(centre: Floats, radius: float, material: Any, turn: float) -> Any:
    """An eyeball that looks at the camera (``turn`` radians about z)."""
    item = mesh_object("eye", *ball(64, 48), material)
    item.location, item.scale = centre, (radius, radius, radius)
    item.rotation_euler = (0.0, 0.0, turn)
    return item


def ball(segments: int, rings: int) -> tuple[Floats, list[list[int]]]:
    """A sphere of radius 1 (Blender's own orders its faces differently from run to run)."""
    polar = np.linspace(0, np.pi, rings + 1)[:, None]
    around = np.linspace(0, 2 * np.pi, segments, endpoint=False)[None]
    x, y = np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around)
    vertices = np.stack([x, y, np.cos(polar) + 0 * around], axis=-1).reshape(-1, 3)
    faces = [
        [i * segments + j, (i + 1) * segments + j, (i + 1) * segments + k, i * segments + k]
        for i in range(rings)
        for j, k in ((j, (j + 1) % segments) for j in range(segments))
    ]
    return vertices, faces


def add_strands(name: str, strands: Strands, material: Any) -> None:
    """Hair curves."""
    curves = bpy.data.hair_curves.new(name)
    count, points, _ = strands.points.shape
    curves.add_curves([points] * count)
    curves.position_data.foreach_set("vector", strands.points.reshape(-1).astype(np.float32))
    radius = curves.attributes.get("radius") or curves.attributes.new("radius", "FLOAT", "POINT")
    taper = np.linspace(1.0, 0.0, points) ** 0.6
    radius.data.foreach_set("value", np.outer(strands.radius, taper).reshape(-1).astype(np.float32))
    curves.materials.append(material)
    item = bpy.data.objects.new(name, curves)
    bpy.context.scene.collection.objects.link(item)


def add_light(
    target: Floats,
    offset: tuple[float, float, float],
    size: float,
    watts: float,
    colour: str,
    mirrored: bool = True,
) -> Any:
    """A square softbox at an offset from its target; eyes and skin reflect it if ``mirrored``."""
    light = bpy.data.lights.new("softbox", "AREA")
    light.size, light.energy, light.color = size, watts, linear(colour)[:3]
    item = bpy.data.objects.new("softbox", light)
    item.visible_glossy = mirrored
    place = target + np.array(offset)
    item.location = place
    item.rotation_euler = Vector(target - place).to_track_quat("-Z", "Y").to_euler()
    bpy.context.scene.collection.objects.link(item)
    return item


def set_stage(eyes: Floats, eyeballs: Any, person: Person) -> None:
    """Camera at eye level, key light high on the left, fill, rim and backdrop."""
    scene = bpy.context.scene
    frame = DISTANCE_M * SENSOR_MM / LENS_MM
    data = bpy.data.cameras.new("camera")
    data.lens, data.sensor_width = LENS_MM, SENSOR_MM
    data.shift_y = 0.5 - EYE_LEVEL
    camera = bpy.data.objects.new("camera", data)
    camera.location = (0.0, eyes[1] - DISTANCE_M, eyes[2])
    camera.rotation_euler = (np.pi / 2, 0.0, 0.0)
    scene.collection.objects.link(camera)
    scene.camera = camera
    face = eyes + np.array([0.0, 0.0, -0.03])
    add_light(face, (-0.75, -1.1, 0.75), 0.8, 19.0, "#fff0e0")
    add_light(face, (0.95, -1.0, 0.15), 1.1, 7.0, "#f1f3ff", mirrored=False)
    add_light(face, (0.0, -1.0, -0.75), 0.8, 3.0, "#ffe9dc", mirrored=False)
    add_light(face, (0.75, 0.75, 0.65), 0.5, 7.0, "#fff6ee")
    add_light(face, (-0.75, 0.8, 0.6), 0.5, 5.0, "#fff6ee")
    # A lamp for the eyes alone: the glint that makes them look alive.
    glint = add_light(face, (-0.36, -1.1, 0.46), 0.28, 24.0, "#ffffff")
    glint.visible_diffuse = False
    glint.light_linking.receiver_collection = eyeballs
    n = Nodes("backdrop")
    window = n.node("TexCoord").outputs["Window"]
    centred = n.node("VectorMath", {0: window, 1: (0.5, 0.45, 0.0)}, operation="DISTANCE").outputs[
        "Value"
    ]
    colour = n.ramp(
        centred, [(0.05, linear(person.backdrop_light)), (0.75, linear(person.backdrop))]
    )
    backdrop = n.finish(n.node("Emission", {0: colour, 1: 1.0}).outputs[0])
    half = frame * 3
    corners = np.array([[-half, 0, -half], [half, 0, -half], [half, 0, half], [-half, 0, half]])
    item = mesh_object("backdrop", corners + eyes + [0.0, 1.6, 0.0], [[0, 1, 2, 3]], backdrop)
    item.visible_diffuse = item.visible_glossy = item.visible_shadow = False
    world = bpy.data.worlds.new("world")
    world.use_nodes = True
    world.node_tree.nodes["Background"].inputs[0].default_value = linear("#dfe3ea")
    world.node_tree.nodes["Background"].inputs[1].default_value = 0.22
    scene.world = world


def render(path: Path, size: int, samples: int) -> None:
    """Render to a JPEG: one seed, two threads, denoised, so that a second run gives the same."""
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.cycles.device = "CPU"
    scene.cycles.samples = samples
    scene.cycles.use_adaptive_sampling = True
    scene.cycles.adaptive_threshold = 0.02
    scene.cycles.seed = 1
    scene.cycles.use_denoising = True
    scene.cycles.denoiser = "OPENIMAGEDENOISE"
    scene.cycles.max_bounces = 4
    scene.cycles.transmission_bounces = 2
    scene.cycles.diffuse_bounces = 2
    scene.cycles.glossy_bounces = 2
    scene.cycles.caustics_reflective = scene.cycles.caustics_refractive = False
    scene.cycles_curves.shape = "RIBBONS"
    scene.render.threads_mode, scene.render.threads = "FIXED", 2
    scene.render.resolution_x = scene.render.resolution_y = size
    scene.render.image_settings.file_format = "JPEG"
    scene.render.image_settings.quality = 95
    scene.render.image_settings.color_mode = "RGB"
    scene.view_settings.view_transform = "AgX"
    scene.view_settings.look = "AgX - Medium High Contrast"
    scene.view_settings.exposure = 0.1
    scene.render.filepath = str(path)
    bpy.ops.render.render(write_still=True)
    path.write_bytes(without_comments(path.read_bytes()))


def without_comments(jpeg: bytes) -> bytes:
    """A JPEG file less its COM segments, where Blender notes the date and the render time."""
    kept, at = jpeg[:2], 2
    while jpeg[at + 1] != 0xDA:  # start of scan: the picture itself
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
        kept += b"" if jpeg[at + 1] == 0xFE else jpeg[at:end]
        at = end
    return kept + jpeg[at:]


def project(points: Floats, eyes: Floats, size: int) -> Floats:
    """Pixel coordinates of points (n, 3) in the picture, by the camera of ``set_stage``."""
    depth = points[:, 1] - (eyes[1] - DISTANCE_M)
    scale = LENS_MM / SENSOR_MM * size / depth
    x = size / 2 + points[:, 0] * scale
    y = size * (1 - EYE_LEVEL) - (points[:, 2] - eyes[2]) * scale
    return np.stack([x, y], axis=1)
