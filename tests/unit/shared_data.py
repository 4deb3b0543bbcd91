"""The folder of measuring data that lies beside the repository, or where E3RG_SHARED says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared(name: str) -> Path:
    """Path of a shared file; the test is skipped, with its reason, where the folder is missing."""
    default = Path(__file__).resolve().parents[3] / "shared"
    path = Path(os.environ.get("E3RG_SHARED", default)) / "data" / name
    if not path.is_file():
        pytest.skip(f"other people's data, not in the repository: {path} (set E3RG_SHARED)")
    return path
