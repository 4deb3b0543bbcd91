"""A real system for benchmarks and tests: `e3rg up`, and a look into its replicas."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import ray
from ray import serve

from e3rg.listen import free_port

STAGES = ("understanding", "memory", "dialogue", "speech", "avatar")
_START_S = 240


@dataclass(frozen=True)
class Server:
    """A running system.

    Attributes:
        address: where it answers.
        data: its data folder.
        process: `e3rg up`; everything else is its children.
    """

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

    def kill(self) -> None:
        """End all its processes at once, as a power cut does."""
        family = [*self.process.children(recursive=True), self.process]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(family, timeout=30)


@contextmanager
def launched(folder: Path, profile: str = "local") -> Iterator[Server]:
    """`e3rg up` on a free port with its data in a folder; stopped when the block ends.

    Raises:
        RuntimeError: with the end of its log, if it does not start; or if it leaves processes.
    """
    port = free_port("127.0.0.1", 0)
    log = folder / "up.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "e3rg.cli", "up", "--profile", profile, "--port", str(port)],
            env={**os.environ, "E3RG_DATA": str(folder / "data")},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(f"http://127.0.0.1:{port}", folder / "data", psutil.Process(process.pid))
    try:
        due = time.monotonic() + _START_S
        while not _ready(server.address):
            if process.poll() is not None or time.monotonic() > due:
                raise RuntimeError(f"the system did not start:\n{log.read_text()[-4000:]}")
            time.sleep(1)
        yield server
    finally:
        children = server.process.children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
        _, alive = psutil.wait_procs(children, timeout=30)
        for child in alive:
            child.kill()
    if alive:
        raise RuntimeError(f"left running: {[child.name() for child in alive]}")


@contextmanager
def system(profile: str) -> Iterator[str]:
    """Start a system with data of its own; it is stopped, and they go, when the block ends.

    Yields:
        Its address.
    """
    with tempfile.TemporaryDirectory() as folder, launched(Path(folder), profile) as server:
        yield server.address


def _ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", timeout=30).status_code == 200
    except httpx.HTTPError:
        return False


@dataclass(frozen=True)
class Level:
    """What a system holds when it has nothing to do.

    Attributes:
        threads: of each stage's replica.
        tasks: the same.
        megabytes: resident, of each replica's process.
    """

    threads: dict[str, int]
    tasks: dict[str, int]
    megabytes: dict[str, float]


class Replicas:
    """Looks into the replicas of the system on this machine, past the gateway."""

    def __init__(self) -> None:
        ray.init(address="auto", namespace="serve", log_to_driver=False, logging_level="ERROR")
        self._handles = {
            stage: serve.get_deployment_handle(stage, app_name="e3rg") for stage in STAGES
        }

    def activity(self) -> dict[str, dict[str, int]]:
        """Calls in work, threads and tasks, asked of all stages at once."""
        asked = {stage: handle.activity.remote() for stage, handle in self._handles.items()}
        return {stage: answer.result(timeout_s=30) for stage, answer in asked.items()}

    def busy(self) -> dict[str, int]:
        """The stages that work on something, and on how much."""
        active = {stage: seen["active"] for stage, seen in self.activity().items()}
        return {stage: count for stage, count in active.items() if count}

    def wait_idle(self, timeout: float = 10) -> None:
        """Return when no stage works on anything."""
        due = time.monotonic() + timeout
        while busy := self.busy():
            assert time.monotonic() < due, f"still working for nobody: {busy}"
            time.sleep(0.05)

    def process(self, server: Server, name: str) -> psutil.Process:
        """The process of a deployment's replica."""
        for process in server.process.children(recursive=True):
            if f"ServeReplica:e3rg:{name}" in " ".join(process.cmdline()[:1]):
                return process
        raise LookupError(f"no replica of {name}")

    def level(self) -> Level:
        """What they hold now."""
        seen = self.activity()
        sizes: dict[str, float] = {}
        for process in psutil.process_iter():
            try:
                name = " ".join(process.cmdline()[:1])
                if "ServeReplica:e3rg:" in name:
                    sizes[name.rsplit(":", 1)[1]] = round(process.memory_info().rss / 1e6, 1)
            except psutil.Error:
                continue
        return Level(
            {stage: each["threads"] for stage, each in seen.items()},
            {stage: each["tasks"] for stage, each in seen.items()},
            sizes,
        )

    def close(self) -> None:
        """Leave the cluster."""
        ray.shutdown()
