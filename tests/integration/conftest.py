"""A real server for the whole run: `e3rg up` on a free port, stopped at the end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

_START_S = 180


@dataclass(frozen=True)
class Server:
    """A running system."""

    address: str
    data: Path
    process: psutil.Process

    def metric(self, name: str) -> float:
        """Sum of a metric's samples."""
        text = httpx.get(f"{self.address}/metrics", timeout=30).text
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.split("{")[0].split(" ")[0] == name
        )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("system")
    port = free_port()
    log = (folder / "up.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "e3rg.cli", "up", "--port", str(port)],
        env={**os.environ, "E3RG_DATA": str(folder / "data")},
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    watched = psutil.Process(process.pid)
    try:
        due = time.monotonic() + _START_S
        while not _ready(address):
            if process.poll() is not None or time.monotonic() > due:
                pytest.fail(f"the system did not start:\n{(folder / 'up.log').read_text()[-4000:]}")
            time.sleep(1)
        yield Server(address, folder / "data", watched)
    finally:
        children = watched.children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
        log.close()
        _, alive = psutil.wait_procs(children, timeout=30)
        for child in alive:
            child.kill()
    assert not alive, f"left running: {[child.name() for child in alive]}"


def _ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", timeout=30).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="session")
def shared() -> Path:
    """Measuring data that is not part of the project (see docs/testing.md)."""
    default = Path(__file__).parents[2] / ".." / "shared"
    return Path(os.environ.get("E3RG_SHARED", default)).resolve() / "data"
