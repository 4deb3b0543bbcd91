"""Pictures of a finished clip: the right frames, in their order."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from e3rg.media.mux import write_mp4
from e3rg.media.previews import COLUMNS, TILE, TILES, take_previews, write_file
from e3rg.media.segment_encoder import encode_still
from e3rg.media.types import Pcm


def film(path: Path, levels: list[int], frames: int) -> Path:
    """A clip that shows one grey after the other, each for so many frames."""
    packets = []
    for level in levels:
        jpeg = cv2.imencode(".jpg", np.full((512, 512, 3), level, np.uint8))[1].tobytes()
        packets += encode_still(jpeg, frames)
    write_mp4(packets, Pcm(bytes(2 * 960 * len(packets)), 24_000), path)
    return path


def decoded(data: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), np.uint8)


def test_the_sheet_shows_the_course_and_the_thumbnail_the_middle(tmp_path: Path) -> None:
    levels = [20, 60, 100, 140, 180]
    made = take_previews(film(tmp_path / "clip.mp4", levels, 20))
    assert made.frames == 100
    sheet = decoded(made.sheet)
    assert sheet.shape == (TILES // COLUMNS * TILE, COLUMNS * TILE, 3)
    for row, level in enumerate(levels):  # 25 tiles of 100 frames: a row for each grey
        tiles = sheet[row * TILE : (row + 1) * TILE]
        assert abs(float(tiles.mean()) - level) < 12, row
        assert float(tiles.std()) < 12
    thumbnail = decoded(made.thumbnail)
    assert thumbnail.shape == (512, 512, 3)
    assert abs(float(thumbnail.mean()) - 100) < 12


@pytest.mark.parametrize(("frames", "shape"), [(1, (1, 1)), (3, (1, 3)), (7, (2, 5))])
def test_short_clips(tmp_path: Path, frames: int, shape: tuple[int, int]) -> None:
    made = take_previews(film(tmp_path / "clip.mp4", [120], frames))
    assert made.frames == frames
    assert decoded(made.sheet).shape == (shape[0] * TILE, shape[1] * TILE, 3)


def test_a_file_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "picture.jpg"
    write_file(target, b"old")

    def refuse(*_: object) -> None:
        raise OSError(5, "no")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(OSError, match="no"):
        write_file(target, b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]
