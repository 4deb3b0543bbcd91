"""Filling the cache: each file from the first source whose bytes have the right sha256."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from e3rg.errors import E3RGError, is_disk_full
from e3rg.models.errors import SourceError, WrongBytesError, disk_full
from e3rg.models.manifest import HubSource, JoinSource, ModelFile, Source, UrlSource
from e3rg.models.progress import PullProgress, Silent
from e3rg.models.sources import Fetcher
from e3rg.models.store import ModelStore, sha256_of

_CHUNK = 1 << 20
_LOCK_S = 3600


def pull_files(
    store: ModelStore, files: Sequence[ModelFile], progress: PullProgress | None = None
) -> int:
    """Get the files that are missing or not what the manifest says; see `ModelStore.pull`."""
    show = progress or Silent()
    store.root.mkdir(parents=True, exist_ok=True)
    with _locked(store.root, show):
        wanted = tuple(file for file in files if store.status(file, deep=True).state != "ok")
        needed = sum(file.size for file in wanted)
        if needed > shutil.disk_usage(store.root).free:
            raise disk_full(store.root, needed)
        downloads = store.root / ".downloads"
        if wanted:
            downloads.mkdir(exist_ok=True)
            with Fetcher(downloads, show) as fetcher:
                _Pull(store.root, fetcher, show).fetch_all(wanted)
        shutil.rmtree(downloads, ignore_errors=True)
    return len(wanted)


class _Pull:
    def __init__(self, root: Path, fetcher: Fetcher, show: PullProgress) -> None:
        self._root = root
        self._fetcher = fetcher
        self._show = show

    def fetch_all(self, wanted: Sequence[ModelFile]) -> None:
        failures = []
        for number, file in enumerate(wanted, 1):
            try:
                self._fetch(file)
            except SourceError as error:
                failures.append(f"{file.name}: {error}")
                self._show.say(f"[{number}/{len(wanted)}] {file.name}: failed")
            except OSError as error:
                if not is_disk_full(error):
                    raise
                raise disk_full(self._root, sum(file.size for file in wanted)) from error
            else:
                self._show.say(f"[{number}/{len(wanted)}] {file.name}: sha256 ok")
        if failures:
            raise E3RGError(
                "model_unavailable",
                "no source gave these model files: " + "\n".join(failures),
                status=503,
            )

    def _fetch(self, file: ModelFile) -> None:
        """Try each source in turn; raise SourceError with every failure when none is right."""
        failures = []
        for source in file.source:
            try:
                return self._install_fresh(file, source)
            except SourceError as error:
                failures.append(f"{source}: {error}")
                self._show.say(f"{file.name}: {failures[-1]}")
        raise SourceError(" | ".join(failures))

    def _install_fresh(self, file: ModelFile, source: Source) -> None:
        try:
            self._install(file, source)
        except WrongBytesError:
            # Leftovers of an earlier run may be what is wrong; then the source has one more try.
            if not self._fetcher.forget(source):
                raise
            try:
                self._install(file, source)
            except WrongBytesError:
                self._fetcher.forget(source)
                raise

    def _install(self, file: ModelFile, source: Source) -> None:
        target = self._root / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, UrlSource | HubSource):
            # Already on this disk: large weights are moved into place, not copied.
            temp = self._fetcher.download(source, file.size)
            _check(file, temp.stat().st_size, sha256_of(temp))
            with temp.open("rb") as data:
                os.fsync(data.fileno())
            temp.replace(target)
        else:
            # The lock makes the name this process's own.
            temp = target.with_name(f".{target.name}.part")
            try:
                self._copy(file, source, temp)
                temp.replace(target)
            finally:
                temp.unlink(missing_ok=True)
        _sync_folder(target.parent)

    def _copy(self, file: ModelFile, source: Source, temp: Path) -> None:
        digest = hashlib.sha256()
        size = 0
        with temp.open("wb") as out:
            for piece in source.part if isinstance(source, JoinSource) else (source,):
                with self._fetcher.open(piece) as data:
                    while chunk := data.read(_CHUNK):
                        size += len(chunk)
                        if size > file.size:
                            raise WrongBytesError(f"more than the {file.size} bytes of the file")
                        digest.update(chunk)
                        out.write(chunk)
            _check(file, size, digest.hexdigest())
            out.flush()
            os.fsync(out.fileno())


@contextmanager
def _locked(root: Path, show: PullProgress) -> Iterator[None]:
    lock = FileLock(root / ".lock")
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            show.say(f"another pull is filling {root}: waiting for it")
            lock.acquire(timeout=_LOCK_S)
    except Timeout:
        raise E3RGError(
            "models_locked",
            f"another pull has held {root} for an hour: end it, then try again",
            status=503,
        ) from None
    try:
        yield
    finally:
        lock.release()


def _check(file: ModelFile, size: int, sha256: str) -> None:
    if size != file.size:
        raise WrongBytesError(f"{size} bytes instead of {file.size}")
    if sha256 != file.sha256:
        raise WrongBytesError(f"wrong sha256 {sha256} instead of {file.sha256}: refused")


def _sync_folder(folder: Path) -> None:
    # A rename survives a power cut only once its folder is on disk.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
