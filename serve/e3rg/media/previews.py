"""Small pictures of a finished clip: one that stands for it, and a sheet that shows its course."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from e3rg.media.mux import COMMENT, atomic_file, disk_full_is_reported

COLUMNS = 5
TILES = 25
TILE = 160
"""Pixels on a tile's side."""
_QUALITY = 88


@dataclass(frozen=True, slots=True)
class Previews:
    """JPEG files, each marked as synthetic in its comment.

    Attributes:
        thumbnail: the clip's middle frame, in its full size.
        sheet: up to TILES frames, evenly spread, COLUMNS in a row, from left to right and down.
        frames: how many the clip has.
    """

    thumbnail: bytes
    sheet: bytes
    frames: int


def take_previews(clip: Path) -> Previews:
    """Decode a clip of this server.

    Args:
        clip: MP4 with square frames.

    Raises:
        av.error.FFmpegError: if it cannot be read.
        ValueError: if it has no frames.
    """
    with av.open(str(clip)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        frames = stream.frames
        if not frames:
            raise ValueError(f"{clip.name} has no frames")
        count = min(TILES, frames)
        wanted = [(2 * n + 1) * frames // (2 * count) for n in range(count)]
        tiles: list[NDArray[np.uint8]] = []
        middle: NDArray[np.uint8] | None = None
        for number, frame in enumerate(container.decode(stream)):
            if number == frames // 2:
                middle = np.asarray(frame.to_ndarray(format="bgr24"), np.uint8)
            if number in wanted:
                small = frame.reformat(TILE, TILE, "bgr24")
                tiles.append(np.asarray(small.to_ndarray(), np.uint8))
    if middle is None:
        raise ValueError(f"{clip.name} breaks off before its middle")
    return Previews(_jpeg(middle), _jpeg(_sheet(tiles)), frames)


def write_file(path: Path, data: bytes) -> None:
    """Write a file that appears only when it is complete.

    Raises:
        E3RGError: ``disk_full`` (507).
    """
    with disk_full_is_reported(), atomic_file(path) as file:
        file.write(data)


def _sheet(tiles: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    columns = min(COLUMNS, len(tiles))
    rows = -(-len(tiles) // columns)
    sheet = np.zeros((rows * TILE, columns * TILE, 3), np.uint8)
    for number, tile in enumerate(tiles):
        top, left = number // columns * TILE, number % columns * TILE
        sheet[top : top + TILE, left : left + TILE] = tile
    return sheet


def _jpeg(picture: NDArray[np.uint8]) -> bytes:
    """Encode, with a comment segment (ITU-T T.81, B.2.4.5) behind the start marker."""
    done, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    if not done:
        raise ValueError("the picture cannot be encoded")
    encoded = data.tobytes()
    comment = COMMENT.encode()
    return encoded[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + encoded[2:]
