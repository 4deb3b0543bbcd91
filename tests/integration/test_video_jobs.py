"""A video job outlives the whole system: killed in the midst of it, and started again."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

import openai
import pytest
from _system import Server, launched
from openai import OpenAI

from e3rg.identities.store import BUILTIN
from e3rg.media.probe import measure_skew

pytestmark = [
    pytest.mark.filterwarnings("ignore:The Sora API:DeprecationWarning"),
    pytest.mark.timeout(1500),
]

_FILM_S = 300


def client_of(server: Server) -> OpenAI:
    return OpenAI(base_url=f"{server.address}/v1", api_key="x")


def test_a_job_survives_a_restart(tmp_path: Path) -> None:
    portrait = BUILTIN / "henry" / "portrait.jpg"
    with launched(tmp_path) as server:
        client = client_of(server)
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
        server.kill()
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "e3rg.db")) as records:
        found = records.execute("SELECT status, attempts, seed FROM video_jobs").fetchall()
    assert found == [("in_progress", 1, 7)]
    with launched(tmp_path) as server:
        client = client_of(server)
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
