"""Admission dies and comes back: what runs is counted, and who comes meanwhile waits."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
from conftest import Replicas, Server
from ray import serve
from sse import stream, turn
from test_faults import STORY, wait_ready

from e3rg.admission.contracts import Stats


def stats() -> Stats:
    handle = serve.get_deployment_handle("admission", app_name="e3rg")
    found: Stats = handle.stats.remote().result(timeout_s=30)
    return found


def test_a_killed_admission_learns_what_runs(server: Server, replicas: Replicas) -> None:
    wait_ready(server)
    events = stream(server.address, json=STORY)
    seen = [next(events)]  # a turn that is under way
    assert stats().leases == 1
    replicas.process(server, "admission").kill()
    with ThreadPoolExecutor(8) as pool:
        short = {**STORY, "max_tokens": 8, "reply_with": "text", "stream": False}
        asked = [
            pool.submit(httpx.post, f"{server.address}/v1/turns", json=short, timeout=60)
            for _ in range(8)
        ]
        seen += events
        answers = [each.result() for each in asked]
    assert seen[-1][0] == "turn.completed"
    assert {answer.status_code for answer in answers} <= {200, 503}
    for answer in answers:
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) > 0
            assert answer.json()["error"]["code"] in {"admission_unavailable", "overloaded"}
    wait_ready(server)
    assert turn(server.address, json={**STORY, "max_tokens": 8})[-1][0] == "turn.completed"
    due = time.monotonic() + 20
    while (left := stats()).leases or any(left.used.values()):
        assert time.monotonic() < due, left
        time.sleep(0.2)
