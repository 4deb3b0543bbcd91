"""Fetching a package's archive through its ordinary client; nothing is installed.

So the user's index, proxy, certificates and cache settings are honoured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from e3rg.models.download import Report, client, download
from e3rg.models.errors import SourceError

_LIMIT_S = 3600
_RAW = re.compile(r"Progress (\d+) of (\d+)")


class DiskFullError(Exception):
    """The package client ran out of room."""


def pip_download(package: str, release: str, folder: Path, report: Report, *, sdist: bool) -> None:
    """Download one wheel (or sdist) with pip into an empty folder.

    pip's own cache makes a repeated download local; pip 25.1 and later also continue a broken
    connection within one call (``--resume-retries``).

    Raises:
        SourceError: with pip's own last words.
        DiskFullError: if there is no room.
    """
    try:
        modern = int(version("pip").split(".")[0]) >= 25
    except PackageNotFoundError:
        raise SourceError("pip is not in this Python environment: install it") from None
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--ignore-requires-python"]
    command += ["--no-binary" if sdist else "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "raw" if modern else "off"]
    command += ["--dest", str(folder), f"{package}=={release}"]
    _run(command, folder, report)


def npm_pack(package: str, release: str, folder: Path, report: Report) -> None:
    """Download one npm tarball into an empty folder, with npm, or without it from its registry.

    Raises:
        SourceError: with npm's own last words, or if there is neither npm nor a registry.
        DiskFullError: if there is no room.
    """
    # Set-up puts an npm beside this Python where the machine has none.
    npm = shutil.which("npm") or shutil.which("npm", path=str(Path(sys.executable).parent))
    if npm is None:
        registry = npm_registry(os.environ)
        if registry is None:
            raise SourceError("npm is not installed and no NPM_CONFIG_REGISTRY is set: do either")
        name = f"{package.rsplit('/', 1)[-1]}-{release}.tgz"
        with client() as http:
            download(http, f"{registry}/{package}/-/{name}", folder / name, report)
        return
    command = [npm, "pack", f"{package}@{release}", "--pack-destination", str(folder)]
    _run([*command, "--ignore-scripts", "--no-update-notifier", "--no-fund"], folder, report)


def npm_registry(environment: Mapping[str, str]) -> str | None:
    """The registry that npm would use, from its environment variable or ``.npmrc``."""
    for key, value in environment.items():
        if key.lower() == "npm_config_registry" and value:
            return value.rstrip("/")
    home = environment.get("HOME", str(Path.home()))
    user = environment.get("NPM_CONFIG_USERCONFIG", str(Path(home, ".npmrc")))
    for path in (user, "/etc/npmrc", "/usr/local/etc/npmrc", "/usr/etc/npmrc"):
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError:
            continue
        if found := re.search(r"^\s*registry\s*=\s*[\"']?(\S+?)[\"']?\s*$", text, re.MULTILINE):
            return found[1].rstrip("/")
    return None


def _run(command: Sequence[str], folder: Path, report: Report) -> None:
    # Beside the folder: the client's temporary files are on the same disk, and its working
    # directory holds no project's settings that could change what is fetched.
    beside = folder.parent
    environment = {**os.environ, "TMPDIR": str(beside), "PYTHONUNBUFFERED": "1"}
    # Node trusts only its own certificates unless told; pip trusts the system's.
    environment.setdefault("NODE_USE_SYSTEM_CA", "1")
    process = subprocess.Popen(
        command,
        cwd=beside,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    timer = threading.Timer(_LIMIT_S, process.kill)
    timer.start()
    words: deque[str] = deque(maxlen=40)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := _RAW.match(line):
                report(int(found[1]), int(found[2]))
            elif line.strip():
                words.append(line.strip())
        code = process.wait()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    if code == 0:
        return
    if any("No space left" in line or "ENOSPC" in line or "[Errno 27]" in line for line in words):
        raise DiskFullError
    errors = [line for line in words if re.match(r"(npm )?ERR", line, re.IGNORECASE)] or list(words)
    raise SourceError(f"{Path(command[0]).name} failed: " + " ".join(errors[-3:]))
