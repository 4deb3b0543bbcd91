"""The model cache: files by name, each checked against the manifest's sha256."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Literal

from filelock import FileLock, Timeout

from e3rg.errors import E3RGError
from e3rg.models.errors import FULL, SourceError, disk_full
from e3rg.models.manifest import (
    HubSource,
    JoinSource,
    Manifest,
    ModelFile,
    Source,
    UrlSource,
    load_manifest,
)
from e3rg.models.progress import PullProgress, Silent
from e3rg.models.sources import Fetcher

_CHUNK = 1 << 20
_LOCK_S = 3600

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
        return tuple(self._status(file, deep=False) for file in self._files(profile))

    def verify(self, profile: str | None = None) -> Iterator[FileStatus]:
        """What is there, by reading every byte.

        Raises:
            E3RGError: ``unknown_profile``.
        """
        return (self._status(file, deep=True) for file in self._files(profile))

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
        show = progress or Silent()
        files = self._files(profile)
        self.root.mkdir(parents=True, exist_ok=True)
        with self._locked(show):
            wanted = tuple(f for f in files if self._status(f, deep=True).state != "ok")
            needed = sum(file.size for file in wanted)
            if needed > shutil.disk_usage(self.root).free:
                raise disk_full(self.root, needed)
            downloads = self.root / ".downloads"
            if wanted:
                downloads.mkdir(exist_ok=True)
                self._fetch_all(wanted, downloads, needed, show)
            shutil.rmtree(downloads, ignore_errors=True)
        return len(wanted)

    def _fetch_all(
        self, wanted: tuple[ModelFile, ...], downloads: Path, needed: int, show: PullProgress
    ) -> None:
        failures = []
        with Fetcher(downloads, show) as fetcher:
            for number, file in enumerate(wanted, 1):
                try:
                    self._fetch(file, fetcher, show)
                except SourceError as error:
                    failures.append(f"{file.name}: {error}")
                    show.say(f"[{number}/{len(wanted)}] {file.name}: failed")
                except OSError as error:
                    if error.errno not in FULL:
                        raise
                    raise disk_full(self.root, needed) from error
                else:
                    show.say(f"[{number}/{len(wanted)}] {file.name}: sha256 ok")
        if failures:
            raise E3RGError(
                "model_unavailable",
                "no source gave these model files: " + "\n".join(failures),
                status=503,
            )

    def _fetch(self, file: ModelFile, fetcher: Fetcher, show: PullProgress) -> None:
        """Try each source in turn; raise SourceError with every failure when none is right."""
        failures = []
        for source in file.source:
            # A second time only if an earlier run's leftovers may be what was wrong.
            for _ in range(2):
                try:
                    return self._install(file, source, fetcher)
                except SourceError as error:
                    failure = f"{source}: {error}"
                    if not fetcher.forget(source):
                        break
            failures.append(failure)
            show.say(f"{file.name}: {failure}")
        raise SourceError(" | ".join(failures))

    def _install(self, file: ModelFile, source: Source, fetcher: Fetcher) -> None:
        target = self.root / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, UrlSource | HubSource):
            # Already on this disk: large weights are moved into place, not copied.
            temp = fetcher.download(source, file.size)
            _check(file, temp.stat().st_size, _sha256(temp))
            with temp.open("rb") as data:
                os.fsync(data.fileno())
            temp.replace(target)
        else:
            # The lock makes the name this process's own.
            temp = target.with_name(f".{target.name}.part")
            try:
                self._copy(file, source, fetcher, temp)
                temp.replace(target)
            finally:
                temp.unlink(missing_ok=True)
        _sync_folder(target.parent)

    def _copy(self, file: ModelFile, source: Source, fetcher: Fetcher, temp: Path) -> None:
        digest = hashlib.sha256()
        size = 0
        with temp.open("wb") as out:
            for piece in source.part if isinstance(source, JoinSource) else (source,):
                with fetcher.open(piece) as data:
                    while chunk := data.read(_CHUNK):
                        size += len(chunk)
                        if size > file.size:
                            raise SourceError(f"it holds more than the {file.size} bytes expected")
                        digest.update(chunk)
                        out.write(chunk)
            _check(file, size, digest.hexdigest())
            out.flush()
            os.fsync(out.fileno())

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

    def _status(self, file: ModelFile, *, deep: bool) -> FileStatus:
        path = self.root / file.name
        state: State = "ok"
        if not path.is_file():
            state = "missing"
        elif path.stat().st_size != file.size or (deep and _sha256(path) != file.sha256):
            state = "corrupt"
        return FileStatus(file, path, state)

    @contextmanager
    def _locked(self, show: PullProgress) -> Iterator[None]:
        lock = FileLock(self.root / ".lock")
        try:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                show.say(f"another pull is filling {self.root}: waiting for it")
                lock.acquire(timeout=_LOCK_S)
        except Timeout:
            raise E3RGError(
                "models_locked",
                f"another pull has held {self.root} for an hour: end it, then try again",
                status=503,
            ) from None
        try:
            yield
        finally:
            lock.release()


def _check(file: ModelFile, size: int, sha256: str) -> None:
    if size != file.size:
        raise SourceError(f"{size} bytes instead of {file.size}")
    if sha256 != file.sha256:
        raise SourceError(f"wrong sha256 {sha256} instead of {file.sha256}: refused")


def _sha256(path: Path) -> str:
    with path.open("rb") as data:
        return _digest(data)


def _digest(data: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := data.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    # A rename survives a power cut only once its folder is on disk.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
