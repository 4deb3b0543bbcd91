"""The model cache: files by name, each checked against the manifest's sha256."""

from __future__ import annotations

from pathlib import Path


class ModelStore:
    """Model files on this machine.

    Args:
        root: folder of the cache.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Path of a file that was pulled before, e.g. ``minilm/model.onnx``.

        Raises:
            E3RGError: ``model_missing``, naming the file and the command that gets it.
        """
        return self.root / name
