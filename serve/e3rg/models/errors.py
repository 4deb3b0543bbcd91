"""How fetching fails: one source at a time, and for the whole pull when the disk is full."""

from __future__ import annotations

import shutil
from pathlib import Path

from e3rg.errors import E3RGError


class SourceError(Exception):
    """One source did not give the file; the next is tried."""


class WrongBytesError(SourceError):
    """The source gave something, but not the file: what came is thrown away."""


def disk_full(root: Path, needed: int) -> E3RGError:
    """The error of a model cache with too little room.

    Args:
        root: folder of the cache.
        needed: bytes that were to be written.
    """
    free = shutil.disk_usage(root).free
    return E3RGError(
        "disk_full",
        f"no room for {needed / 1e6:.0f} MB of model files in {root} ({free / 1e6:.0f} MB free): "
        "free some space or set E3RG_MODELS to a folder on a larger disk, then run "
        "`e3rg models pull` again",
        status=507,
    )
