"""A real system for a benchmark: `e3rg up` on a free port, and a look into its replicas."""

from __future__ import annotations

import os
import signal
import socket
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

STAGES = ("understanding", "memory", "dialogue", "speech", "avatar")
_START_S = 240


@contextmanager
def system(profile: str) -> Iterator[str]:
    """Start a system with data of its own; it is stopped when the block ends.

    Yields:
        Its address.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "up.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "e3rg.cli", "up", "--profile", profile, "--port", str(port)],
                env={**os.environ, "E3RG_DATA": str(Path(folder) / "data")},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        address = f"http://127.0.0.1:{port}"
        try:
            due = time.monotonic() + _START_S
            while not _ready(address):
                if process.poll() is not None or time.monotonic() > due:
                    raise SystemExit(f"the system did not start:\n{log.read_text()[-3000:]}")
                time.sleep(1)
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=90)


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
