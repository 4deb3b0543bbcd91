"""The worker of video jobs: one database file, one or more workers, scripted stages."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scripted import REPLY, Script
from test_jobs import job

from e3rg.admission.controller import AdmissionController
from e3rg.config import load_profile
from e3rg.errors import E3RGError
from e3rg.gateway.admitting import Admitter, ProfileLimits
from e3rg.gateway.turns import TurnRunner
from e3rg.gateway.videos.progress import Progress
from e3rg.gateway.videos.videos import Videos
from e3rg.gateway.videos.worker import VideoWorker
from e3rg.identities.store import IdentityStore
from e3rg.media.clips import ClipStore
from e3rg.media.probe import measure_skew
from e3rg.records.database import Database
from e3rg.records.jobs import MAX_ATTEMPTS, JobStore, VideoJob
from e3rg.records.ledger import UsageLedger
from e3rg.records.turns import TurnStore
from e3rg.records.usage import UsageRow
from e3rg.stages.avatar.engine import RenderRequest
from e3rg.stages.dialogue.engine import DialogueRequest
from e3rg.turn.events import TextDelta, VideoFrames
from e3rg.turn.request import TurnRequest


class Replica:
    """A gateway's parts, as one process has them."""

    def __init__(self, folder: Path, script: Script, places: int = 3) -> None:
        self.now = time.time
        self.database = Database(f"sqlite:///{folder / 'records.db'}")
        self.turns = TurnStore(self.database)
        identities = IdentityStore(folder / "identities")
        config = load_profile("local").admission
        self.database.create(UsageRow)
        self.admission = AdmissionController(config, UsageLedger(self.database))
        self.admitter = Admitter(self.admission, ProfileLimits(config), config)
        clips = ClipStore(folder / "clips", keep=1)
        self.runner = TurnRunner(script.stages(), self.turns, clips, places, self.admitter)
        limits = load_profile("local").turn
        made = Videos.create(self.database, folder / "videos", self.runner, identities, limits)
        jobs = JobStore(self.database, clock=lambda: self.now())
        worker = VideoWorker(
            jobs,
            made.files,
            self.runner,
            identities,
            limits,
            poll_s=0.05,
            renew_s=0.05,
            retry_s=0.0,
        )
        self.videos = Videos(jobs, made.files, worker)
        self.closed = False

    async def close(self) -> None:
        """As a shutdown."""
        if not self.closed:
            self.closed = True
            await self.videos.worker.close()
            await self.runner.close()
            await self.admitter.close()
            await self.admission.close()
            self.database.close()

    async def until(self, video: str, *states: str) -> VideoJob:
        async with asyncio.timeout(30):
            while (found := await self.videos.get(video)).status not in states:
                await asyncio.sleep(0.02)
            return found


@pytest.fixture
def script() -> Script:
    return Script()


class Replicas:
    def __init__(self, folder: Path, script: Script) -> None:
        self._folder = folder
        self._script = script
        self.all: list[Replica] = []

    def start(self, script: Script | None = None, **options: Any) -> Replica:
        replica = Replica(self._folder, script or self._script, **options)
        self.all.append(replica)
        replica.videos.worker.start()
        return replica


@pytest.fixture
async def replicas(tmp_path: Path, script: Script) -> AsyncIterator[Replicas]:
    made = Replicas(tmp_path, script)
    yield made
    for replica in made.all:
        await replica.close()


async def busy(script: Script, stage: str) -> None:
    await script.until_working(stage)


async def idle(script: Script) -> None:
    await script.until_idle()


async def test_a_job_becomes_a_clip_and_its_pictures(replicas: Replicas, script: Script) -> None:
    here = replicas.start()
    await here.videos.add(job(1, seconds=12, user="ann", policy="mirror"), None)
    done = await here.until(job(1).id, "completed", "failed")
    assert (done.status, done.error_code, done.progress) == ("completed", None, 100)
    report = measure_skew(await here.videos.result(done.id, "video"))
    assert report.frames == round(done.length * 25)  # type: ignore[operator]
    assert report.skew_ms <= 40
    for variant in ("thumbnail", "spritesheet"):
        data = (await here.videos.result(done.id, variant)).read_bytes()  # type: ignore[arg-type]
        assert data.startswith(b"\xff\xd8")
        assert b"Synthetic media" in data[:200]
    turn = await here.turns.get(done.turn)
    assert turn is not None
    assert (turn.reply, turn.user, turn.identity) == (REPLY, "ann", "clara")
    asked = next(what for stage, what in script.calls if stage == "dialogue")
    assert isinstance(asked, DialogueRequest)
    assert (asked.max_tokens, asked.seed) == (60, 7)


async def test_two_workers_share_the_work_and_never_a_job(
    replicas: Replicas, script: Script
) -> None:
    first, second = replicas.start(), replicas.start()
    for number in range(8):
        await first.videos.add(job(number), None)
    ended = [await first.until(job(number).id, "completed", "failed") for number in range(8)]
    assert {(each.status, each.attempts) for each in ended} == {("completed", 1)}
    assert sum(1 for stage, _ in script.calls if stage == "dialogue") == 8
    assert (await second.videos.page(100, None, True)).more is False


async def test_clips_of_turns_do_not_push_a_video_out(replicas: Replicas, tmp_path: Path) -> None:
    here = replicas.start()
    await here.videos.add(job(1), None)
    done = await here.until(job(1).id, "completed")
    identity = IdentityStore(tmp_path / "identities").default()
    for number in range(3):  # the folder of turns holds one
        request = TurnRequest(
            id=f"turn_{number}",
            conversation="c",
            identity=identity,
            deadline=time.time() + 60,
            text="Hello.",
        )
        async for _ in here.runner.run(request, here.runner.take()):
            pass
    assert len(list((tmp_path / "clips").glob("*.mp4"))) == 1
    assert (await here.videos.result(done.id, "video")).is_file()


async def test_a_shutdown_hands_the_job_on_with_its_portrait(
    replicas: Replicas, script: Script
) -> None:
    here = replicas.start()
    script.hold["avatar"] = asyncio.Event()
    portrait = b"a face of its own"
    await here.videos.add(job(1, own_portrait=True), portrait)
    await busy(script, "avatar")
    await here.close()
    assert script.idle
    after = Script()
    there = replicas.start(after)
    done = await there.until(job(1).id, "completed", "failed")
    assert (done.status, done.attempts) == ("completed", 1)
    asked = next(what for stage, what in after.calls if stage == "avatar")
    before = next(what for stage, what in script.calls if stage == "avatar")
    assert isinstance(asked, RenderRequest)
    assert isinstance(before, RenderRequest)
    assert asked.portrait.sha256 == hashlib.sha256(portrait).hexdigest()
    assert (asked.seed, asked.first_frame) == (before.seed, 0)
    async with asyncio.timeout(10):
        while there.videos.files.portrait(done.id).exists():
            await asyncio.sleep(0.01)


async def test_a_crash_lets_the_lease_run_out(
    replicas: Replicas, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = replicas.start()
    script.hold["avatar"] = asyncio.Event()
    await here.videos.add(job(1), None)
    await busy(script, "avatar")
    # The process stands still: it neither renews nor learns of anything.
    monkeypatch.setattr(JobStore, "renew", lambda *_: asyncio.sleep(3600, True))
    await asyncio.sleep(0.2)
    there = replicas.start(Script())
    await asyncio.sleep(0.2)
    assert (await there.videos.get(job(1).id)).attempts == 1
    there.now = lambda: time.time() + 31
    there.videos.worker.wake()
    done = await there.until(job(1).id, "completed", "failed")
    assert (done.status, done.attempts) == ("completed", 2)


async def test_deleting_stops_all_stages_here_and_elsewhere(
    replicas: Replicas, script: Script, tmp_path: Path
) -> None:
    here = replicas.start()
    there = replicas.start(Script())
    await there.videos.worker.close()  # it deletes, and works on nothing
    for number, deleting in enumerate((here, there), 1):
        script.hold["avatar"] = asyncio.Event()
        await here.videos.add(job(number, own_portrait=True), b"face")
        await busy(script, "avatar")
        await deleting.videos.delete(job(number).id)
        await idle(script)
        script.hold.clear()
    await asyncio.sleep(0.2)
    assert list((tmp_path / "videos").iterdir()) == []
    await here.videos.add(job(3), None)
    await here.until(job(3).id, "completed")


@pytest.mark.parametrize(
    ("fault", "attempts", "code"),
    [
        (E3RGError("avatar_busy", "busy", status=503), MAX_ATTEMPTS, "avatar_busy"),
        (E3RGError("avatar_failed", "broken", status=502), 1, "avatar_failed"),
    ],
)
async def test_faults_that_pass_are_tried_again(
    replicas: Replicas, script: Script, fault: E3RGError, attempts: int, code: str
) -> None:
    script.fail["avatar"] = fault
    here = replicas.start()
    await here.videos.add(job(1), None)
    failed = await here.until(job(1).id, "failed", "completed")
    assert (failed.status, failed.attempts, failed.error_code) == ("failed", attempts, code)
    with pytest.raises(E3RGError, match=fault.message):
        await here.videos.result(failed.id, "video")


async def test_whoever_talks_goes_first(replicas: Replicas, script: Script) -> None:
    here = replicas.start(places=2)
    with here.runner.take():  # one of two places left
        await here.videos.add(job(1), None)
        await asyncio.sleep(0.3)
        assert (await here.videos.get(job(1).id)).status == "queued"
        here.runner.take().release()
    await here.until(job(1).id, "completed")


async def test_a_single_place_is_used(replicas: Replicas) -> None:
    here = replicas.start(places=1)
    await here.videos.add(job(1), None)
    await here.until(job(1).id, "completed")


async def test_nothing_spoken_is_a_failure(replicas: Replicas, script: Script) -> None:
    script.reply = ""
    here = replicas.start()
    await here.videos.add(job(1), None)
    failed = await here.until(job(1).id, "failed", "completed")
    assert failed.error_code == "no_video"


def test_progress_rises_with_the_frames_and_is_never_ahead() -> None:
    progress = Progress(4)
    frames = VideoFrames((None,) * 25, None, 0)  # type: ignore[arg-type]
    seen = [progress.percent]
    progress.note(TextDelta("x" * 30))
    for _ in range(6):
        progress.note(frames)
        seen.append(progress.percent)
    assert seen == sorted(seen)
    assert seen[2] == 10 + round(87 / 2)
    assert seen[-1] < 100
    longer = Progress(4)
    longer.note(TextDelta("x" * 150))  # ten seconds of speech
    longer.note(frames)
    assert longer.percent < 20
