"""Manifests, archives and a small disk for the model store's tests."""

from __future__ import annotations

import base64
import hashlib
import io
import random
import resource
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e3rg.models.manifest import Manifest, ModelFile


def weights(size: int, seed: int = 0) -> bytes:
    """Bytes that do not compress, as weights do not."""
    return random.Random(seed).randbytes(size)


def entry(name: str, data: bytes, *sources: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "license": "Apache-2.0",
        "profiles": ["local"],
        "source": sources,
        **changes,
    }


def manifest(*entries: dict[str, Any]) -> Manifest:
    return Manifest(tuple(ModelFile.model_validate(one) for one in entries))


@contextmanager
def largest_file(limit: int) -> Iterator[None]:
    """Let the kernel refuse to let any file grow beyond so many bytes, in children too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def wheel(package: str, version: str, members: dict[str, bytes]) -> bytes:
    """A small but valid wheel (PyPA binary distribution format)."""
    info = f"{package}-{version}.dist-info"
    files = {
        **members,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
    }
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {
            **files,
            f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode(),
        }.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarball(members: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    """A .tar.gz with regular files and symbolic links."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type = tarfile.SYMTYPE
            info.linkname = target
            archive.addfile(info)
    return buffer.getvalue()


def left_over(root: Path) -> list[str]:
    """Everything under a cache but its lock, as relative names of files."""
    names = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return sorted(name for name in names if name != ".lock")
