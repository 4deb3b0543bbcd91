"""A listener: one face, one voice, one manner, fixed for a conversation."""

from __future__ import annotations

from dataclasses import dataclass

MAX_PORTRAIT_BYTES = 20_000_000
"""Largest portrait file that is accepted."""


@dataclass(frozen=True, slots=True)
class PortraitRef:
    """Points at portrait bytes by content; replicas fetch and prepare it once.

    Attributes:
        sha256: hex digest of the portrait file's bytes (PNG, JPEG or WebP).
    """

    sha256: str


@dataclass(frozen=True, slots=True)
class PortraitReport:
    """What preflight found in an accepted portrait.

    Attributes:
        width, height: pixels, after EXIF rotation.
        face: left, top, right, bottom of the face mesh, as fractions of the picture.
        yaw, pitch, roll: head pose in degrees, signs as in ``vision.face.FaceMesh``.
        sharpness: variance of the Laplacian over the face, at 256 pixels' face width.
    """

    width: int
    height: int
    face: tuple[float, float, float, float]
    yaw: float
    pitch: float
    roll: float
    sharpness: float


@dataclass(frozen=True, slots=True)
class Identity:
    """A listener.

    Attributes:
        id: stable name, ``[a-z0-9-]{1,64}``.
        name: what the listener is called.
        gender: ``female`` or ``male``: picks a default voice.
        age: ``young``, ``adult`` or ``senior``.
        voice: voice id of the speech engine.
        portrait: the face.
        profile: one or two sentences of character, given to the language model.
        builtin: shipped with the package; cannot be removed.
    """

    id: str
    name: str
    gender: str
    age: str
    voice: str
    portrait: PortraitRef
    profile: str
    builtin: bool = False
