"""Replicas that die, and clients that leave at any moment."""

import random
import time

import httpx
import pytest
from conftest import Replicas, Server
from sse import of, stream, turn

STORY = {"text": "Tell me a long story about your day.", "max_tokens": 100}


def wait_ready(server: Server, timeout: float = 90) -> None:
    due = time.monotonic() + timeout
    while httpx.get(f"{server.address}/readyz", timeout=60).status_code != 200:
        assert time.monotonic() < due, "it did not become ready again"
        time.sleep(1)


def test_leaving_at_random_moments_leaves_no_work_behind(
    server: Server, replicas: Replicas
) -> None:
    moments = random.Random(1)
    for _ in range(12):
        events = stream(server.address, json=STORY)
        for _ in range(moments.choice((1, 2, 3, 6, 12, 25))):
            next(events)
        events.close()
    replicas.wait_idle()
    time.sleep(0.5)
    assert server.metric("e3rg_turns_active") == 0
    assert of(turn(server.address, json={**STORY, "max_tokens": 12}), "turn.completed")


@pytest.mark.parametrize("stage", ["speech", "avatar", "dialogue", "memory", "understanding"])
def test_a_killed_replica_is_replaced(server: Server, replicas: Replicas, stage: str) -> None:
    wait_ready(server)
    replicas.process(server, stage).kill()
    # Whoever is there at that moment gets a whole reply, a lesser one that says so, or an error.
    events = turn(server.address, json={**STORY, "max_tokens": 16, "timeout": 60})
    assert events[-1][0] in {"turn.completed", "error"}
    if events[-1][0] == "turn.completed" and stage in {"speech", "avatar"}:
        spoken, shown = of(events, "audio.chunk"), of(events, "video.segment")
        assert of(events, "degraded") or (spoken and shown)
    wait_ready(server)
    whole = turn(server.address, json={**STORY, "max_tokens": 16})
    assert whole[-1][0] == "turn.completed"
    assert not of(whole, "degraded")
