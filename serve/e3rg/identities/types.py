"""A listener: one face, one voice, one manner, fixed for a conversation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PortraitRef:
    """Points at portrait bytes by content; replicas fetch and prepare it once.

    Attributes:
        sha256: hex digest of the portrait file's bytes (PNG or JPEG).
    """

    sha256: str


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
    """

    id: str
    name: str
    gender: str
    age: str
    voice: str
    portrait: PortraitRef
    profile: str
