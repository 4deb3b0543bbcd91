"""Skin, eyes, hair and wool as Cycles materials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bpy
import numpy as np
from people import Person


def linear(colour: str) -> tuple[float, float, float, float]:
    """``#rrggbb`` (sRGB) as linear RGBA."""
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    low, high = srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4
    r, g, b = np.where(srgb <= 0.04045, low, high)
    return float(r), float(g), float(b), 1.0


class Nodes:
    """A material's node tree, written as nested calls."""

    def __init__(self, name: str) -> None:
        self.material = bpy.data.materials.new(name)
        self.material.use_nodes = True
        self.tree = self.material.node_tree
        self.tree.nodes.clear()

    def node(self, kind: str, inputs: dict[Any, Any] | None = None, **settings: Any) -> Any:
        """Add a node; an input is a value or another node's output socket."""
        node = self.tree.nodes.new(f"ShaderNode{kind}")
        for key, value in settings.items():
            setattr(node, key, value)
        for key, value in (inputs or {}).items():
            socket = node.inputs[key]
            if isinstance(value, bpy.types.NodeSocket):
                self.tree.links.new(value, socket)
            else:
                socket.default_value = value
        return node

    def ramp(self, value: Any, stops: list[tuple[float, Any]]) -> Any:
        """A colour ramp; a stop's colour is linear RGBA or one grey level."""
        node = self.node("ValToRGB", {0: value})
        elements = node.color_ramp.elements
        while len(elements) < len(stops):
            elements.new(0.5)
        for element, (position, colour) in zip(elements, stops, strict=True):
            element.position = position
            grey = isinstance(colour, (int, float))
            element.color = (colour, colour, colour, 1.0) if grey else colour
        return node.outputs[0]

    def mix(self, factor: Any, a: Any, b: Any, blend: str = "MIX") -> Any:
        """Mix two colours."""
        node = self.node("Mix", {0: factor, 6: a, 7: b}, data_type="RGBA", blend_type=blend)
        return node.outputs[2]

    def finish(self, shader: Any) -> Any:
        """Connect the surface; returns the material."""
        self.node("OutputMaterial", {0: shader})
        return self.material


def skin_material(person: Person, textures: Path) -> Any:
    """Skin: subsurface scattering, blush and lips, pores; two coats of shine."""
    n = Nodes("skin")
    uv = n.node("UVMap", uv_map="uv").outputs[0]

    def mask(name: str) -> Any:
        image = bpy.data.images.load(str(textures / f"mpfb_{name}.jpg"), check_existing=True)
        image.colorspace_settings.name = "Non-Color"
        return n.node("TexImage", {0: uv}, image=image, interpolation="Cubic").outputs[0]

    position = n.node("TexCoord").outputs["Object"]
    blotch = n.node("TexNoise", {"Vector": position, "Scale": 38.0, "Detail": 4.0}).outputs[0]
    base = n.mix(
        n.ramp(blotch, [(0.35, 0.0), (0.7, 0.55)]), linear(person.skin), linear(person.skin_warm)
    )
    blush = n.node("Attribute", attribute_name="blush").outputs["Fac"]
    base = n.mix(blush, base, linear(person.blush))
    shade = n.node("Attribute", attribute_name="shade").outputs["Fac"]
    base = n.mix(shade, base, linear(person.skin_shade))
    if person.freckles:
        cells = n.node(
            "TexVoronoi", {"Vector": position, "Scale": 420.0, "Randomness": 1.0}
        ).outputs["Distance"]
        sparse = n.node("TexNoise", {"Vector": position, "Scale": 170.0}).outputs[0]
        dots = n.mix(
            1.0,
            n.ramp(cells, [(0.12, 1.0), (0.3, 0.0)]),
            n.ramp(sparse, [(0.5, 0.0), (0.6, 1.0)]),
            "MULTIPLY",
        )
        where = n.node("Attribute", attribute_name="freckles").outputs["Fac"]
        factor = n.mix(1.0, dots, where, "MULTIPLY")
        base = n.mix(factor, base, linear(person.freckles))
    scalp = n.node("Attribute", attribute_name="scalp").outputs["Fac"]
    base = n.mix(scalp, base, linear(person.scalp))
    lips = n.ramp(mask("lips"), [(0.25, 0.0), (0.9, person.lip_strength)])
    base = n.mix(lips, base, linear(person.lips))
    pores = n.node("TexVoronoi", {"Vector": position, "Scale": 1300.0}).outputs["Distance"]
    fine = n.node("TexNoise", {"Vector": position, "Scale": 260.0, "Detail": 6.0}).outputs[0]
    relief = n.mix(0.5, pores, fine)
    bump = n.node(
        "Bump", {"Height": relief, "Strength": 0.10 + 0.10 * person.wrinkles, "Distance": 0.0006}
    )
    lip_shine = n.mix(lips, (0.46, 0.46, 0.46, 1), (0.30, 0.30, 0.30, 1))
    shader = n.node(
        "BsdfPrincipled",
        {
            "Base Color": base,
            "Roughness": lip_shine,
            "Specular IOR Level": 0.42,
            "Subsurface Weight": 0.9,
            "Subsurface Radius": (1.0, 0.32, 0.16),
            "Subsurface Scale": 0.0042,
            "Coat Weight": 0.06,
            "Coat Roughness": 0.32,
            "Normal": bump.outputs[0],
        },
        subsurface_method="BURLEY",
    )
    return n.finish(shader.outputs[0])


def eye_material(person: Person) -> Any:
    """An eyeball seen along -y in its own coordinates (radius 1): sclera, iris, pupil, wet coat."""
    n = Nodes("eye")
    position = n.node("TexCoord").outputs["Object"]
    xyz = n.node("SeparateXYZ", {0: position})
    flat = n.node("CombineXYZ", {0: xyz.outputs[0], 1: 0.0, 2: xyz.outputs[2]}).outputs[0]
    radius = n.node("VectorMath", {0: flat}, operation="LENGTH").outputs["Value"]
    angle = n.node("Math", {0: xyz.outputs[0], 1: xyz.outputs[2]}, operation="ARCTAN2").outputs[0]
    spokes = n.node(
        "CombineXYZ",
        {0: n.node("Math", {0: angle, 1: 9.0}, operation="MULTIPLY").outputs[0], 1: radius, 2: 0.0},
    ).outputs[0]
    fibres = n.node("TexNoise", {"Vector": spokes, "Scale": 2.2, "Detail": 5.0}).outputs[0]
    iris_edge, pupil_edge = 0.50, 0.25
    dark, light = linear(person.iris), linear(person.iris_light)
    iris = n.mix(n.ramp(fibres, [(0.3, 0.0), (0.7, 1.0)]), dark, light)
    inner = n.ramp(radius, [(pupil_edge, 0.8), (0.38, 0.0)])
    iris = n.mix(inner, iris, n.mix(0.5, light, linear(person.iris_inner)))
    # Light falls through the cornea on the far side of the iris: brighter below.
    below = n.ramp(
        n.node("MapRange", {0: xyz.outputs[2], 1: -0.45, 2: 0.4}).outputs[0],
        [(0.0, 0.30), (1.0, 0.0)],
    )
    iris = n.mix(below, iris, light, "SCREEN")
    limbus = n.ramp(radius, [(iris_edge - 0.10, 0.0), (iris_edge, 0.85)])
    iris = n.mix(limbus, iris, (0.012, 0.010, 0.010, 1))
    pupil = n.ramp(radius, [(pupil_edge - 0.02, 1.0), (pupil_edge + 0.02, 0.0)])
    iris = n.mix(pupil, iris, (0.004, 0.004, 0.004, 1))
    white = n.ramp(radius, [(0.5, (0.80, 0.77, 0.74, 1)), (0.95, (0.66, 0.50, 0.46, 1))])
    colour = n.mix(n.ramp(radius, [(iris_edge - 0.025, 0.0), (iris_edge + 0.03, 1.0)]), iris, white)
    shader = n.node(
        "BsdfPrincipled",
        {
            "Base Color": colour,
            "Roughness": 0.35,
            "Specular IOR Level": 0.0,
            "Subsurface Weight": 0.25,
            "Subsurface Scale": 0.002,
            "Coat Weight": 1.0,
            "Coat Roughness": 0.012,
            "Coat IOR": 1.38,
        },
    )
    return n.finish(shader.outputs[0])


def hair_material(name: str, melanin: float, redness: float, tint: str, roughness: float) -> Any:
    """Hair fibre with natural pigment, or, where melanin is 0, of the tint's colour."""
    n = Nodes(name)
    pigment: dict[Any, Any] = {"Color": linear(tint)}
    if melanin:
        pigment = {
            "Melanin": melanin,
            "Melanin Redness": redness,
            "Tint": linear(tint),
            "Random Color": 0.25,
        }
    shader = n.node(
        "BsdfHairPrincipled",
        pigment | {"Roughness": roughness, "Radial Roughness": 0.45, "Random Roughness": 0.2},
        parametrization="MELANIN" if melanin else "COLOR",
    )
    return n.finish(shader.outputs[0])


def lash_material() -> Any:
    """Eyelashes: dark, without the glow of hair that light shines through."""
    n = Nodes("lash")
    dark = {"Base Color": linear("#1a1210"), "Roughness": 0.5, "Specular IOR Level": 0.2}
    return n.finish(n.node("BsdfPrincipled", dark).outputs[0])


def cloth_material(colour: str, knit: bool) -> Any:
    """Wool or cotton."""
    n = Nodes("cloth")
    position = n.node("TexCoord").outputs["Object"]
    grain = n.node("TexNoise", {"Vector": position, "Scale": 500.0, "Detail": 3.0}).outputs[0]
    if knit:
        wave = n.node(
            "TexWave", {"Vector": position, "Scale": 70.0, "Distortion": 1.2, "Detail": 1.0}
        ).outputs["Fac"]
        height = n.mix(0.35, wave, grain)
    else:
        height = grain
    bump = n.node("Bump", {"Height": height, "Strength": 0.5 if knit else 0.25, "Distance": 0.0012})
    base = linear(colour)
    darker = (base[0] * 0.75, base[1] * 0.75, base[2] * 0.75, 1.0)
    shader = n.node(
        "BsdfPrincipled",
        {
            "Base Color": n.mix(n.ramp(grain, [(0.35, 0.0), (0.65, 1.0)]), darker, base),
            "Roughness": 0.85,
            "Sheen Weight": 0.25,
            "Specular IOR Level": 0.2,
            "Normal": bump.outputs[0],
        },
    )
    return n.finish(shader.outputs[0])
