"""The model cache: files by name, each checked against the manifest's sha256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from e3rg.errors import E3RGError
from e3rg.models.manifest import Manifest, ModelFile, load_manifest

if TYPE_CHECKING:
    from e3rg.models.progress import PullProgress

_CHUNK = 1 << 20

State = Literal["ok", "missing", "corrupt"]


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One manifest entry and what this machine has of it."""

    file: ModelFile
    path: Path
    state: State


class ModelStore:
    """Model files on this machine.

    Args:
        root: folder of the cache.
        manifest: the files there are; the package's own by default.
    """

    def __init__(self, root: Path, manifest: Manifest | None = None) -> None:
        self.root = root
        self._given = manifest

    @cached_property
    def manifest(self) -> Manifest:
        """The files there are; read when first needed."""
        return load_manifest() if self._given is None else self._given

    def path(self, name: str) -> Path:
        """Path of a file that was pulled before, e.g. ``minilm/model.onnx``.

        A file outside the manifest may be put into the cache by hand, or named by its absolute
        path; then nothing vouches for its bytes.

        Raises:
            E3RGError: ``model_missing``, naming the file and the command that gets it;
                ``model_corrupt`` if its size is not the manifest's (`verify` reads the bytes).
        """
        file = self.manifest.get(name)
        path = self.root / name
        if ".." in Path(name).parts or not path.is_file():
            mend = "run `e3rg models pull`"
            if file is None:
                mend = f"it is not in the manifest, so put it into {self.root} by hand"
            raise E3RGError("model_missing", f"model file {name} is missing: {mend}", status=503)
        if file is not None and path.stat().st_size != file.size:
            raise E3RGError(
                "model_corrupt",
                f"model file {name} has {path.stat().st_size} bytes instead of {file.size}: "
                "run `e3rg models pull`, which replaces it",
                status=503,
            )
        return path

    def list(self, profile: str | None = None) -> tuple[FileStatus, ...]:
        """What is there, by presence and size only.

        Raises:
            E3RGError: ``unknown_profile``.
        """
        return tuple(self.status(file, deep=False) for file in self._files(profile))

    def verify(self, profile: str | None = None) -> Iterator[FileStatus]:
        """What is there, by reading every byte.

        Raises:
            E3RGError: ``unknown_profile``.
        """
        return (self.status(file, deep=True) for file in self._files(profile))

    def pull(self, profile: str = "local", progress: PullProgress | None = None) -> int:
        """Get every file of a profile that is missing or not what the manifest says.

        Atomic for each file, so a reader never sees half of one; continues where an earlier run
        was interrupted; waits while another pull fills the same cache.

        Args:
            profile: name of the profile.
            progress: told of what happens.

        Returns:
            How many files were fetched; 0 when all were there.

        Raises:
            E3RGError: ``unknown_profile``; ``model_unavailable`` naming each file that no source
                gave, and why; ``disk_full``; ``models_locked`` after an hour of waiting.
        """
        # Most who hold a store only read: they need neither HTTP nor the hub nor progress bars.
        from e3rg.models.pull import pull_files

        return pull_files(self, self._files(profile), progress)

    def status(self, file: ModelFile, *, deep: bool) -> FileStatus:
        """What is there of one file.

        Args:
            file: a manifest entry.
            deep: read every byte, rather than trust the size.
        """
        path = self.root / file.name
        state: State = "ok"
        if not path.is_file():
            state = "missing"
        elif path.stat().st_size != file.size or (deep and sha256_of(path) != file.sha256):
            state = "corrupt"
        return FileStatus(file, path, state)

    def _files(self, profile: str | None) -> tuple[ModelFile, ...]:
        if profile is None:
            return tuple(self.manifest)
        if files := self.manifest.for_profile(profile):
            return files
        raise E3RGError(
            "unknown_profile",
            f"no model file belongs to profile {profile!r}: "
            f"one of {', '.join(self.manifest.profiles)}",
            param="profile",
        )


def sha256_of(path: Path) -> str:
    """The hex digest of a file, read in chunks."""
    digest = hashlib.sha256()
    with path.open("rb") as data:
        while chunk := data.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
