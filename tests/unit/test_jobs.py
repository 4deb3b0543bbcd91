"""Video jobs as rows: who may work on one, for how long, and what is kept."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e3rg.errors import E3RGError
from e3rg.gateway.videos.files import VideoFiles
from e3rg.records.database import Database
from e3rg.records.jobs import MAX_ATTEMPTS, JobStore, VideoJob


def job(number: int, **changes: Any) -> VideoJob:
    values: dict[str, Any] = {
        "id": f"video_{number:024x}",
        "created": 1000.0 + number,
        "model": "e3rg",
        "prompt": "I lost my dog.",
        "seconds": 4,
        "identity": "clara",
        "own_portrait": False,
        "policy": "empathise",
        "seed": 7,
    }
    return VideoJob(**(values | changes))


class Replicas:
    """Stores of several processes on one file."""

    def __init__(self, path: Path) -> None:
        self._url = f"sqlite:///{path / 'records.db'}"
        self._open: list[Database] = []
        self.now = 5000.0

    def store(self, **options: Any) -> JobStore:
        self._open.append(Database(self._url))
        return JobStore(self._open[-1], clock=lambda: self.now, **options)

    def close(self) -> None:
        for database in self._open:
            database.close()


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path)
    yield made
    made.close()


async def test_no_job_is_claimed_twice(replicas: Replicas) -> None:
    stores = [replicas.store() for _ in range(4)]
    for number in range(20):
        await stores[0].add(job(number))

    async def work(store: JobStore) -> list[str]:
        mine = []
        while (claimed := await store.claim()) is not None:
            mine.append(claimed.id)
        return mine

    shares = await asyncio.gather(*map(work, stores))
    claimed = [name for share in shares for name in share]
    assert sorted(claimed) == [job(number).id for number in range(20)]
    assert sum(1 for share in shares if share) > 1


async def test_the_oldest_comes_first(replicas: Replicas) -> None:
    store = replicas.store()
    for number in (3, 1, 2):
        await store.add(job(number))
    claimed = [await store.claim() for _ in range(4)]
    assert [each and each.id for each in claimed] == [job(1).id, job(2).id, job(3).id, None]


async def test_a_lease_is_kept_by_renewal_and_lost_without(replicas: Replicas) -> None:
    here, there = replicas.store(lease_s=30), replicas.store(lease_s=30)
    await here.add(job(1))
    first = await here.claim()
    assert first is not None
    for percent in (10, 20, 30, 40):
        replicas.now += 20
        assert await here.renew(first, percent)
        assert await there.claim() is None
    assert (await there.get(first.id)).progress == 40  # type: ignore[union-attr]
    replicas.now += 31
    second = await there.claim()
    assert second is not None
    assert (second.id, second.attempts, second.progress, second.seed) == (first.id, 2, 0, 7)
    # Whoever lost it cannot touch it any more.
    assert not await here.renew(first, 50)
    assert not await here.complete(first, 3.0, 60)
    assert not await here.fail(first, E3RGError("x", "y"))
    assert not await here.give_back(first, counted=True)
    assert await there.complete(second, 3.2, 60)
    done = await here.get(second.id)
    assert done is not None
    assert (done.status, done.progress, done.length) == ("completed", 100, 3.2)
    assert done.expires == replicas.now + 60


async def test_a_job_that_kills_its_worker_is_given_up(replicas: Replicas) -> None:
    store = replicas.store(lease_s=30)
    await store.add(job(1))
    for attempt in range(1, MAX_ATTEMPTS + 1):
        claimed = await store.claim()
        assert claimed is not None
        assert claimed.attempts == attempt
        replicas.now += 31
    assert await store.claim() is None
    failed = await store.get(job(1).id)
    assert failed is not None
    assert (failed.status, failed.error_code) == ("failed", "attempts_exhausted")
    assert failed.completed is not None


async def test_giving_back(replicas: Replicas) -> None:
    store = replicas.store()
    await store.add(job(1))
    for _ in range(MAX_ATTEMPTS + 2):  # a shutdown is no attempt
        claimed = await store.claim()
        assert claimed is not None
        assert await store.give_back(claimed, counted=False)
    claimed = await store.claim()
    assert claimed is not None
    assert claimed.attempts == 1
    assert await store.give_back(claimed, counted=True, after_s=10)
    assert await store.claim() is None
    replicas.now += 10
    again = await store.claim()
    assert again is not None
    assert again.attempts == 2


async def test_a_deleted_job_is_nobodys(replicas: Replicas) -> None:
    here, there = replicas.store(), replicas.store()
    await here.add(job(1))
    claimed = await here.claim()
    assert claimed is not None
    assert await there.remove(claimed.id)
    assert not await there.remove(claimed.id)
    assert not await here.renew(claimed, 10)
    assert not await here.complete(claimed, 1.0, 60)
    assert await here.get(claimed.id) is None


async def test_the_queue_is_bounded_for_all_replicas_together(replicas: Replicas) -> None:
    stores = [replicas.store(waiting=3) for _ in range(3)]
    adding = [stores[number % 3].add(job(number)) for number in range(9)]
    results = await asyncio.gather(*adding, return_exceptions=True)
    refused = [each for each in results if isinstance(each, E3RGError)]
    assert len(refused) == 6
    assert {each.code for each in refused} == {"video_queue_full"}
    assert all(each.status == 503 and each.retry_after for each in refused)
    claimed = await stores[0].claim()
    assert claimed is not None
    await stores[0].complete(claimed, 1.0, 60)
    await stores[1].add(job(20))


async def test_pages(replicas: Replicas) -> None:
    store = replicas.store()
    # The same instant, so that the order rests on the ids too.
    for number in range(7):
        await store.add(job(number, created=1000.0 + number // 3))
    for newest_first in (True, False):
        listed: list[str] = []
        after = None
        while True:
            page = await store.page(3, after, newest_first)
            listed += [each.id for each in page.jobs]
            after = listed[-1]
            if not page.more:
                break
        expected = [job(number).id for number in range(7)]
        assert listed == (expected[::-1] if newest_first else expected)
    with pytest.raises(E3RGError, match="no video"):
        await store.page(3, "video_gone", True)


async def test_old_jobs_and_stray_files_go(replicas: Replicas, tmp_path: Path) -> None:
    store = replicas.store(keep=2)
    files = VideoFiles(tmp_path / "videos")
    for number in range(5):
        await store.add(job(number))
        files.portrait(job(number).id).write_bytes(b"face")
    for number in range(4):
        claimed = await store.claim()
        assert claimed is not None
        files.result(claimed.id).write_bytes(b"clip")
        await store.complete(claimed, 1.0, 60 if number == 3 else -1)
    crashed = files.result("video_unknown")
    crashed.write_bytes(b"half")
    await store.prune()
    states = await store.states()
    assert states == {job(2).id: "nothing", job(3).id: "results", job(4).id: "all"}
    files.sweep(states)
    left = {path.name for path in (tmp_path / "videos").iterdir()}
    # What is younger than an hour may belong to a job that is just being added.
    assert left >= {f"{job(3).id}.mp4", f"{job(4).id}.portrait", "video_unknown.mp4"}
    assert f"{job(2).id}.mp4" not in left
    assert f"{job(3).id}.portrait" not in left
    for path in (tmp_path / "videos").iterdir():
        old = time.time() - 7200
        os.utime(path, (old, old))
    files.sweep(states)
    left = {path.name for path in (tmp_path / "videos").iterdir()}
    assert left == {f"{job(3).id}.mp4", f"{job(4).id}.portrait"}
