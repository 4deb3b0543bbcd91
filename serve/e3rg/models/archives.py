"""Reading one member of a wheel, zip or tarball, without unpacking or installing it."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from e3rg.models.errors import SourceError, WrongBytesError


@contextmanager
def open_member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    """Open a member for reading; only its bytes are used, never its name, mode or links.

    Raises:
        SourceError: if the archive holds no such regular file.
        WrongBytesError: if it is damaged.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as wheel, wheel.open(_zip_entry(wheel, member)) as data:
                yield data
        else:
            with tarfile.open(archive) as tarball:
                yield _tar_entry(tarball, member)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise WrongBytesError(f"{archive.name} is damaged: {error}") from error


def _zip_entry(wheel: zipfile.ZipFile, member: str) -> zipfile.ZipInfo:
    try:
        entry = wheel.getinfo(member)
    except KeyError:
        raise SourceError(f"{_named(wheel.filename)} holds no {member}") from None
    if entry.is_dir():
        raise SourceError(f"{member} is a folder in {_named(wheel.filename)}")
    return entry


def _tar_entry(tarball: tarfile.TarFile, member: str) -> IO[bytes]:
    try:
        entry = tarball.getmember(member)
    except KeyError:
        raise SourceError(f"{_named(tarball.name)} holds no {member}") from None
    # A link could point anywhere; extractfile would follow it inside the archive.
    data = tarball.extractfile(entry) if entry.isreg() else None
    if data is None:
        raise SourceError(f"{member} is not a regular file in {_named(tarball.name)}")
    return data


def _named(path: object) -> str:
    return Path(str(path)).name
