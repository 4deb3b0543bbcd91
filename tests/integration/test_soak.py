"""Fifty turns one after another: nothing grows and nothing is left over."""

import tempfile
from pathlib import Path

import psutil
import pytest
from conftest import STAGES, Replicas, Server
from sse import of, turn

WARM_UP, TURNS = 12, 50
NAMES = (*STAGES, "gateway")


def measure(server: Server, replicas: Replicas) -> dict[str, tuple[int, int, int]]:
    """Private memory, threads and open files of each replica."""
    found = {}
    for name in NAMES:
        process: psutil.Process = replicas.process(server, name)
        found[name] = (process.memory_full_info().uss, process.num_threads(), process.num_fds())
    return found


@pytest.mark.timeout(1200)
def test_fifty_turns_leave_nothing(server: Server, replicas: Replicas) -> None:
    temporary = set(Path(tempfile.gettempdir()).glob("e3rg-*"))
    before: dict[str, tuple[int, int, int]] = {}
    tasks: dict[str, int] = {}
    for number in range(WARM_UP + TURNS):
        if number == WARM_UP:
            replicas.wait_idle()
            before = measure(server, replicas)
            tasks = replicas.level().tasks
        events = turn(
            server.address,
            json={"text": f"I lost my dog, day {number}.", "max_tokens": 14, "user": "soak"},
        )
        assert of(events, "turn.completed"), events[-1]
    replicas.wait_idle()
    after = measure(server, replicas)
    total_before = sum(values[0] for values in before.values())
    total_after = sum(values[0] for values in after.values())
    print(f"memory of the replicas: {total_before / 1e6:.1f} MB, then {total_after / 1e6:.1f} MB")
    assert total_after <= total_before * 1.02, (before, after)
    for name in NAMES:
        assert after[name][1] <= before[name][1] + 2, f"threads of {name}: {before} {after}"
        assert after[name][2] <= before[name][2] + 2, f"files of {name}: {before} {after}"
    for stage, count in replicas.level().tasks.items():
        assert count <= tasks[stage] + 1
    assert set(Path(tempfile.gettempdir()).glob("e3rg-*")) <= temporary
