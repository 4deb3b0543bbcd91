"""A video job outlives the whole system: killed in the midst of it, and started again."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import psutil
import pytest
from openai import OpenAI

from e3rg.identities.store import BUILTIN
from e3rg.media.probe import measure_skew

pytestmark = [
    pytest.mark.filterwarnings("ignore:The Sora API:DeprecationWarning"),
    pytest.mark.timeout(1500),
]

_START_S = 300
_FILM_S = 300


@contextmanager
def system(folder: Path) -> Iterator[OpenAI]:
    """`e3rg up` on a free port; at the end it is killed with all its processes, at once."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    log = folder / "up.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "e3rg.cli", "up", "--port", str(port)],
            env={**os.environ, "E3RG_DATA": str(folder / "data")},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        due = time.monotonic() + _START_S
        while not _ready(address):
            if process.poll() is not None or time.monotonic() > due:
                pytest.fail(f"the system did not start:\n{log.read_text()[-4000:]}")
            time.sleep(1)
        yield OpenAI(base_url=f"{address}/v1", api_key="x")
    finally:
        watched = psutil.Process(process.pid)
        family = [*watched.children(recursive=True), watched]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        process.wait()
        psutil.wait_procs(family, timeout=30)


def _ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", timeout=30).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_job_survives_a_restart(tmp_path: Path) -> None:
    portrait = BUILTIN / "henry" / "portrait.jpg"
    with system(tmp_path) as client:
        asked = client.videos.create(
            prompt="I lost my dog yesterday.",
            seconds="12",
            input_reference=portrait,
            extra_body={"seed": 7},
        )
        due = time.monotonic() + _FILM_S
        while client.videos.retrieve(asked.id).progress < 10:
            assert time.monotonic() < due
            time.sleep(0.1)
        with pytest.raises(openai.ConflictError):
            client.with_options(max_retries=0).videos.download_content(asked.id)
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "e3rg.db")) as records:
        found = records.execute("SELECT status, attempts, seed FROM video_jobs").fetchall()
    assert found == [("in_progress", 1, 7)]
    with system(tmp_path) as client:
        again = client.videos.retrieve(asked.id)
        assert again.status in {"queued", "in_progress"}
        assert [video.id for video in client.videos.list()] == [asked.id]
        done = client.videos.poll(asked.id, poll_interval_ms=500)
        assert (done.status, done.error, done.prompt) == ("completed", None, asked.prompt)
        report = measure_skew(client.videos.download_content(asked.id).content)
        assert report.frames / 25 == pytest.approx(float(done.seconds), abs=0.01)
        assert report.frames > 25
        assert report.skew_ms <= 40
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "e3rg.db")) as records:
        found = records.execute("SELECT status, attempts FROM video_jobs").fetchall()
    assert found == [("completed", 2)]
