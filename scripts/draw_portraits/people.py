"""Who is drawn: shapes as weights of MakeHuman targets, colours as sRGB, hair by style."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hair:
    """A hairstyle and its pigment (melanin 0 is white, 1 is black)."""

    style: str
    melanin: float
    redness: float = 0.3
    tint: str = "#ffffff"
    roughness: float = 0.32


@dataclass(frozen=True)
class Person:
    """One portrait. ``shape`` maps a target's path to its weight."""

    id: str
    shape: dict[str, float]
    skin: str
    skin_warm: str
    skin_shade: str
    blush: str
    lips: str
    iris: str
    iris_light: str
    iris_inner: str
    hair: Hair
    cloth: str
    backdrop: str
    backdrop_light: str
    lip_strength: float = 0.75
    freckles: str = ""
    wrinkles: float = 0.0
    knit: bool = True
    neckline: str = "crew"
    scalp: str = "#2a1d16"
    scalp_strength: float = 0.7
    brow_shape: str = "arched"
    brow_density: float = 1.0
    stubble: float = 0.0
    brow: Hair | None = None
    beard: Hair | None = None
    seed: int = 1
    lash_length: float = 1.0


def both(name: str, weight: float) -> dict[str, float]:
    """A target of each eye, cheek or ear."""
    folder, target = name.split("/")
    return {f"{folder}/l-{target}": weight, f"{folder}/r-{target}": weight}


def figure(gender: str, races: dict[str, float], age: dict[str, float]) -> dict[str, float]:
    """MakeHuman's macro targets for an average build."""
    shape: dict[str, float] = {}
    for years, share in age.items():
        shape[f"macrodetails/universal-{gender}-{years}-averagemuscle-averageweight"] = share
        for race, part in races.items():
            shape[f"macrodetails/{race}-{gender}-{years}"] = share * part
    return shape


SMILE = {
    "expression/units/caucasian/mouth-corner-puller": 0.55,
    "mouth/mouth-upperlip-volume-incr": 0.35,
    "mouth/mouth-lowerlip-volume-incr": 0.25,
    "neck/neck-scale-vert-decr": 0.6,
}
OPEN_EYES = both("eyes/eye-scale-incr", 0.95) | both("eyes/eye-height2-incr", 0.6)

PEOPLE = (
    Person(
        id="clara",
        shape=figure("female", {"caucasian": 0.85, "asian": 0.15}, {"young": 0.85, "old": 0.15})
        | SMILE
        | OPEN_EYES
        | {"head/head-oval": 0.55},
        skin="#e0ab8c",
        skin_warm="#d99a7c",
        skin_shade="#a96f58",
        blush="#d27a68",
        lips="#b45a58",
        iris="#24150b",
        iris_light="#5c3819",
        iris_inner="#7a4c22",
        hair=Hair("bob", 0.74, 0.55),
        cloth="#4f7680",
        backdrop="#7f9094",
        backdrop_light="#cfd6d3",
        scalp="#2b1a12",
        seed=11,
    ),
    Person(
        id="amara",
        shape=figure("female", {"african": 0.9, "caucasian": 0.1}, {"young": 1.0})
        | SMILE
        | OPEN_EYES
        | {"head/head-oval": 0.4, "nose/nose-scale-horiz-decr": 0.25},
        skin="#78503a",
        skin_warm="#80523a",
        skin_shade="#4d2b1e",
        blush="#8f4636",
        lips="#7d3d3a",
        iris="#140b07",
        iris_light="#3d2414",
        iris_inner="#4b2c17",
        hair=Hair("afro", 0.93, 0.3),
        cloth="#c98a3c",
        backdrop="#8a7466",
        backdrop_light="#dccab8",
        neckline="scoop",
        scalp="#120b08",
        seed=12,
        lip_strength=0.65,
    ),
    Person(
        id="mei",
        shape=figure("female", {"asian": 0.9, "caucasian": 0.1}, {"young": 0.9, "old": 0.1})
        | SMILE
        | OPEN_EYES
        | {"head/head-oval": 0.35},
        skin="#e3b590",
        skin_warm="#dba680",
        skin_shade="#a97a5c",
        blush="#d6866f",
        lips="#b65e5a",
        iris="#160d08",
        iris_light="#43281a",
        iris_inner="#54331c",
        hair=Hair("long", 0.94, 0.2, roughness=0.24),
        cloth="#8d5a6b",
        backdrop="#86829a",
        backdrop_light="#d6d2de",
        scalp="#15100d",
        brow_shape="straight",
        seed=13,
    ),
    Person(
        id="ruth",
        shape=figure("female", {"caucasian": 1.0}, {"young": 0.2, "old": 0.8})
        | SMILE
        | OPEN_EYES
        | {"head/head-round": 0.2},
        skin="#dfae94",
        skin_warm="#d69a82",
        skin_shade="#a4705c",
        blush="#d07d6e",
        lips="#b0645f",
        iris="#33454c",
        iris_light="#6f868c",
        iris_inner="#8f9a8c",
        hair=Hair("wavy", 0.0, 0.1, "#c4c1bd"),
        cloth="#6f7fa6",
        backdrop="#8c8f86",
        backdrop_light="#dcdccf",
        scalp="#b3a091",
        scalp_strength=0.5,
        wrinkles=1.0,
        brow=Hair("", 0.0, 0.2, "#8d827a"),
        brow_density=0.7,
        lip_strength=0.6,
        lash_length=0.8,
        seed=14,
    ),
    Person(
        id="daniel",
        shape=figure(
            "male", {"caucasian": 0.8, "african": 0.1, "asian": 0.1}, {"young": 0.85, "old": 0.15}
        )
        | SMILE
        | OPEN_EYES,
        skin="#cf9874",
        skin_warm="#c48763",
        skin_shade="#93614a",
        blush="#bd6f5b",
        lips="#a8635a",
        iris="#1f130a",
        iris_light="#4f3219",
        iris_inner="#66421f",
        hair=Hair("swept", 0.86, 0.4),
        cloth="#3f5a4c",
        backdrop="#7b8a80",
        backdrop_light="#cdd6cc",
        scalp="#20150f",
        lip_strength=0.45,
        stubble=0.4,
        brow_shape="straight",
        brow_density=1.25,
        lash_length=0.7,
        seed=15,
    ),
    Person(
        id="kofi",
        shape=figure("male", {"african": 0.95, "caucasian": 0.05}, {"young": 1.0})
        | SMILE
        | OPEN_EYES,
        skin="#5f3826",
        skin_warm="#6b3f2a",
        skin_shade="#3a2117",
        blush="#74392c",
        lips="#6e3d37",
        iris="#100906",
        iris_light="#331d11",
        iris_inner="#3f2413",
        hair=Hair("coils", 0.96, 0.3),
        cloth="#a9583f",
        backdrop="#6f8794",
        backdrop_light="#c5d3da",
        scalp="#0f0a08",
        scalp_strength=0.85,
        lip_strength=0.5,
        stubble=0.25,
        brow_shape="straight",
        brow_density=1.2,
        lash_length=0.8,
        seed=16,
    ),
    Person(
        id="henry",
        shape=figure("male", {"caucasian": 1.0}, {"young": 0.42, "old": 0.58})
        | SMILE
        | OPEN_EYES
        | both("eyes/eye-height2-incr", 0.9)
        | both("eyes/eye-height1-incr", 0.5)
        | both("eyes/eye-height3-incr", 0.5)
        | {"head/head-round": 0.2},
        skin="#d7a083",
        skin_warm="#cc8c70",
        skin_shade="#9b6652",
        blush="#c87462",
        lips="#ad6a60",
        iris="#2f4152",
        iris_light="#667f92",
        iris_inner="#8b9a9c",
        hair=Hair("brushed", 0.0, 0.1, "#b9b6b2"),
        cloth="#7a5a44",
        backdrop="#7a8694",
        backdrop_light="#ced5dc",
        scalp="#b09a8a",
        scalp_strength=0.45,
        wrinkles=1.0,
        brow=Hair("", 0.0, 0.1, "#8b8680"),
        brow_shape="straight",
        brow_density=1.1,
        lip_strength=0.4,
        stubble=0.15,
        lash_length=0.6,
        seed=17,
    ),
)
