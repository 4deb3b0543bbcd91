"""Finished replies on disk: a bounded folder of MP4 files, oldest deleted first."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ClipStore:
    """Replies by turn id.

    Args:
        folder: where they are kept; made if it is missing.
        keep: the most clips, and ``max_bytes`` the most bytes, that are kept.
    """

    def __init__(self, folder: Path, keep: int = 500, max_bytes: int = 2_000_000_000) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._keep = keep
        self._max_bytes = max_bytes

    def path(self, turn: str) -> Path:
        """Where a turn's clip is or will be.

        Raises:
            ValueError: if the id could name another file.
        """
        if not _NAME.fullmatch(turn):
            raise ValueError(f"not a turn id: {turn!r}")
        return self._folder / f"{turn}.mp4"

    def prune(self) -> int:
        """Delete the oldest clips beyond the bounds; returns how many."""
        entries = []
        for path in self._folder.glob("*.mp4"):
            try:
                stat = path.stat()
            except FileNotFoundError:  # another replica pruned it
                continue
            entries.append((stat.st_mtime, stat.st_size, path))
        entries.sort(key=lambda entry: entry[0], reverse=True)
        total = removed = 0
        for index, (_, size, path) in enumerate(entries):
            total += size
            if index >= self._keep or total > self._max_bytes:
                path.unlink(missing_ok=True)
                removed += 1
        return removed
