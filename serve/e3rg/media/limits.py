"""What an upload may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["audio", "video"]


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """Bounds on an uploaded file, checked on its header and again while it is decoded.

    Attributes:
        max_bytes: size of the file.
        max_seconds: duration.
        max_pixels: width × height of a video.
        max_streams: tracks in a container.
        max_frames: stills taken from a video.
        frame_side: pixels on the long side of a still.
        timeout_s: wall-clock time for the decoding, and about the CPU time.
    """

    max_bytes: int = 50_000_000
    max_seconds: float = 120.0
    max_pixels: int = 4096 * 2304
    max_streams: int = 16
    max_frames: int = 8
    frame_side: int = 512
    timeout_s: float = 30.0
