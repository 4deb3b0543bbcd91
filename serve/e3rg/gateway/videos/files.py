"""The files of video jobs: a folder of their own, so that ordinary turns do not push them out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from e3rg.records.jobs import Keep

Variant = Literal["video", "thumbnail", "spritesheet"]

MEDIA_TYPES: dict[Variant, str] = {
    "video": "video/mp4",
    "thumbnail": "image/jpeg",
    "spritesheet": "image/jpeg",
}
_SUFFIXES: dict[Variant, str] = {
    "video": ".mp4",
    "thumbnail": ".thumbnail.jpg",
    "spritesheet": ".spritesheet.jpg",
}
_PORTRAIT = ".portrait"
_STRAY_S = 3600.0


class VideoFiles:
    """Files by job id; the ids are made by this server, never a caller's.

    Args:
        folder: where they are kept; made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def result(self, job: str, variant: Variant = "video") -> Path:
        """Where a finished job's file is or will be."""
        return self._folder / f"{job}{_SUFFIXES[variant]}"

    def portrait(self, job: str) -> Path:
        """Where the portrait that a job brought waits for it."""
        return self._folder / f"{job}{_PORTRAIT}"

    def remove(self, job: str) -> None:
        """Delete all files of a job."""
        for suffix in (*_SUFFIXES.values(), _PORTRAIT):
            (self._folder / f"{job}{suffix}").unlink(missing_ok=True)

    def sweep(self, states: Mapping[str, Keep]) -> None:
        """Delete what no job needs: of those that expired or failed, and what a crash left.

        Args:
            states: every job, see ``JobStore.states``.
        """
        for path in tuple(self._folder.iterdir()):
            keep = states.get(path.name.partition(".")[0])
            if keep is None:
                # A job's portrait is there before its row.
                try:
                    stray = time.time() - path.stat().st_mtime > _STRAY_S
                except FileNotFoundError:
                    continue
            else:
                stray = keep == "nothing" or (keep == "results" and path.suffix == _PORTRAIT)
            if stray:
                path.unlink(missing_ok=True)
