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
import ray
import shared_data
from ray import serve

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
    return shared_data.shared("speech_jfk.flac").parent


STAGES = ("understanding", "memory", "dialogue", "speech", "avatar")


class Replicas:
    """Looks into the running replicas, past the gateway."""

    def activity(self, stage: str) -> dict[str, int]:
        """Calls in work, threads and tasks of a stage's replica."""
        handle = serve.get_deployment_handle(stage, app_name="e3rg")
        activity: dict[str, int] = handle.activity.remote().result(timeout_s=30)
        return activity

    def wait_idle(self, timeout: float = 10) -> None:
        """Return when no stage works on anything."""
        due = time.monotonic() + timeout
        while True:
            busy = {stage: self.activity(stage)["active"] for stage in STAGES}
            if not any(busy.values()):
                return
            assert time.monotonic() < due, f"still working for nobody: {busy}"
            time.sleep(0.05)

    def process(self, server: Server, name: str) -> psutil.Process:
        """The process of a deployment's replica."""
        for process in server.process.children(recursive=True):
            if f"ServeReplica:e3rg:{name}" in " ".join(process.cmdline()[:1]):
                return process
        raise LookupError(f"no replica of {name}")


@pytest.fixture(scope="session")
def replicas(server: Server) -> Iterator[Replicas]:
    ray.init(address="auto", namespace="serve", log_to_driver=False, logging_level="ERROR")
    yield Replicas()
    ray.shutdown()
