"""Avatar: a talking head rendered in stateless segments.

Frame ``n`` of a turn shows sample ``n * rate / fps``. Head motion and blinks are functions of the
turn's seed and time, so that any replica renders any segment and a retry gives the same frames.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from e3rg.emotions.types import Delivery
from e3rg.identities.types import PortraitRef, PortraitReport
from e3rg.media.types import Pcm, Phoneme, Still, VideoPacket

__all__ = [
    "FPS",
    "SIZE",
    "AvatarEngine",
    "PortraitReport",
    "RenderRequest",
    "VideoChunk",
]

FPS = 25
SIZE = 512


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """One segment to render.

    Attributes:
        portrait: whose face.
        audio: the segment's sound; its length is a whole number of frames.
        phonemes: mouth timing, seconds from the segment's start; empty where unknown, and then
            the mouth follows the sound's energy.
        first_frame: index of the segment's first frame in the turn.
        delivery: the expression to show.
        previous: the expression at the segment's start (the one before it), to move smoothly.
        seed: the turn's seed.
    """

    portrait: PortraitRef
    audio: Pcm
    phonemes: tuple[Phoneme, ...]
    first_frame: int
    delivery: Delivery
    previous: Delivery | None
    seed: int


@dataclass(frozen=True, slots=True)
class VideoChunk:
    """Consecutive encoded frames of a segment, at FPS and SIZE×SIZE.

    The first chunk of a segment starts with a key frame. All segments share encoder settings, so
    that their packets can be joined in one stream.
    """

    packets: tuple[VideoPacket, ...]
    first_frame: int


class AvatarEngine(Protocol):
    """Renders a listener's face."""

    def render(self, request: RenderRequest) -> AsyncGenerator[VideoChunk, None]:
        """Render a segment: exactly audio.seconds * FPS frames. Closing the iterator stops it."""
        ...

    async def prepare(self, portrait: PortraitRef) -> None:
        """Make ready what rendering this portrait needs, so that the first frame need not wait.

        Raises:
            E3RGError: ``unknown_portrait``, ``portrait_no_face``.
        """
        ...

    async def still(self, portrait: PortraitRef, delivery: Delivery) -> Still:
        """One picture with the expression, for when video has no room."""
        ...

    async def inspect(self, portrait: bytes) -> PortraitReport:
        """Preflight a portrait file (PNG, JPEG or WebP bytes).

        Raises:
            E3RGError: ``portrait_unreadable``, ``portrait_too_large``, ``portrait_too_small``,
                ``portrait_no_face``, ``portrait_multiple_faces``, ``portrait_face_too_small``,
                ``portrait_face_cropped``, ``portrait_pose``, ``portrait_blurred``; param
                ``portrait``, status 422.
        """
        ...
