"""Works on video jobs, one at a time in each gateway replica, behind whoever talks just now."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace

from e3rg.admission.contracts import Priority
from e3rg.config import TurnConfig
from e3rg.emotions.table import ListenerPolicy
from e3rg.errors import E3RGError, internal_error
from e3rg.gateway.ids import new_id
from e3rg.gateway.new_turn import new_turn
from e3rg.gateway.places import Place
from e3rg.gateway.turns import Outcome, TurnRunner
from e3rg.gateway.videos.files import VideoFiles
from e3rg.gateway.videos.progress import Progress
from e3rg.identities.store import IdentityStore
from e3rg.media.previews import take_previews, write_file
from e3rg.records.jobs import MAX_ATTEMPTS, JobStore, VideoJob
from e3rg.stages.avatar.engine import FPS
from e3rg.turn.events import TurnFailed
from e3rg.turn.request import Modality, TurnRequest

log = logging.getLogger(__name__)

KEEP_S = 24 * 3600.0
"""A finished video's files are kept for so many seconds."""
SECONDS_A_SENTENCE = 4
TOKENS_A_SECOND = 5

_PASSING = frozenset({429, 503, 504})
"""Statuses of faults that may be gone at the next attempt."""
_NO_ROOM = frozenset({"overloaded", "rate_limit_exceeded", "admission_unavailable"})
_SWEEP_S = 60.0
_RECORD_PAUSES_S = (0.5, 1.0, 2.0, 4.0)


class VideoWorker:
    """Claims jobs and runs each as one whole turn.

    Args:
        jobs: the jobs of all replicas.
        files: where their files are kept.
        runner: runs the turns; jobs leave its last place to those who talk.
        identities: the listeners.
        limits: of a turn.
        poll_s: the queue is looked at so often when nothing wakes the worker; ``renew_s`` is the
            time between two renewals of a lease, after which a deletion elsewhere is noticed.
        retry_s: wait before the second attempt; doubled for the third.
    """

    def __init__(
        self,
        jobs: JobStore,
        files: VideoFiles,
        runner: TurnRunner,
        identities: IdentityStore,
        limits: TurnConfig,
        *,
        poll_s: float = 2.0,
        renew_s: float = 2.0,
        retry_s: float = 5.0,
    ) -> None:
        self._jobs = jobs
        self._files = files
        self._runner = runner
        self._identities = identities
        self._limits = limits
        self._poll_s = poll_s
        self._renew_s = renew_s
        self._retry_s = retry_s
        self._woken = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._attempt: tuple[str, asyncio.Task[None]] | None = None
        self._swept = 0.0

    def start(self) -> None:
        """Begin to work, in the running event loop."""
        self._loop = asyncio.create_task(self._work(), name="videos")

    def wake(self) -> None:
        """Look at the queue now."""
        self._woken.set()

    async def cancel(self, job: str) -> None:
        """Stop a job at once, if it is this worker's."""
        if self._attempt is not None and self._attempt[0] == job:
            self._attempt[1].cancel()
            await asyncio.wait({self._attempt[1]})

    async def close(self) -> None:
        """Stop; a job in work goes back to the queue and does not count as tried."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait({self._loop})

    async def _work(self) -> None:
        while True:
            self._woken.clear()
            try:
                pause = await self._next()
            except E3RGError as error:
                log.warning("video jobs have to wait: %s", error.message)
                pause = self._poll_s
            except Exception as error:
                log.error("video jobs have to wait", exc_info=error)
                pause = self._poll_s
            if pause:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._woken.wait()

    async def _next(self) -> float:
        """Do one job, if there is one and room for it; returns how long to wait then."""
        if time.monotonic() - self._swept > _SWEEP_S or not self._swept:
            self._swept = time.monotonic()
            await self._sweep()
        if not self._runner.spare:
            return self._poll_s
        job = await self._jobs.claim()
        if job is None:
            return self._poll_s
        if not self._runner.spare:  # somebody came meanwhile
            await self._jobs.give_back(job, counted=False)
            return self._poll_s
        await self._hold(job, self._runner.take())
        return 0

    async def _sweep(self) -> None:
        await self._jobs.prune()
        states = await self._jobs.states()
        await asyncio.to_thread(self._files.sweep, states)

    async def _hold(self, job: VideoJob, place: Place) -> None:
        """Run an attempt, and keep the job's lease until it ends."""
        progress = Progress(job.seconds)
        attempt = asyncio.create_task(self._try(job, place, progress), name=job.id)
        self._attempt = (job.id, attempt)
        ours_until = time.monotonic() + self._jobs.lease_s
        try:
            while not (await asyncio.wait({attempt}, timeout=self._renew_s))[0]:
                try:
                    ours = await self._jobs.renew(job, progress.percent)
                    ours_until = time.monotonic() + self._jobs.lease_s
                except E3RGError as error:
                    log.warning("lease of %s not renewed: %s", job.id, error.message)
                    ours = time.monotonic() + self._renew_s < ours_until
                if not ours and not attempt.done():
                    log.info("%s is deleted, or another replica's", job.id)
                    break
        finally:
            self._attempt = None
            if not attempt.done():
                attempt.cancel()
                await asyncio.wait({attempt})
            place.release_unused()
            if self._loop is not None and self._loop.cancelling():
                with suppress(E3RGError):  # then the lease runs out by itself
                    await self._jobs.give_back(job, counted=False)
        if await self._jobs.get(job.id) is None:
            await asyncio.to_thread(self._files.remove, job.id)

    async def _try(self, job: VideoJob, place: Place, progress: Progress) -> None:
        try:
            frames = await self._film(job, place, progress)
        except E3RGError as error:
            await self._give_up(job, error)
        except Exception as error:
            log.error("%s failed", job.id, exc_info=error)
            await self._give_up(job, internal_error("video", job.id))
        else:
            await _recorded(lambda: self._jobs.complete(job, frames / FPS, KEEP_S))
            self._files.portrait(job.id).unlink(missing_ok=True)

    async def _give_up(self, job: VideoJob, error: E3RGError) -> None:
        if error.code in _NO_ROOM:
            # Nothing was begun: whoever talks goes first, for as long as it takes.
            pause = max(error.retry_after or 0.0, self._retry_s)
            await _recorded(lambda: self._jobs.give_back(job, counted=False, after_s=pause))
            return
        if error.status in _PASSING and job.attempts < MAX_ATTEMPTS:
            log.info("%s is tried again: %s", job.id, error.message)
            pause = max(error.retry_after or 0.0, self._retry_s * 2 ** (job.attempts - 1))
            await _recorded(lambda: self._jobs.give_back(job, counted=True, after_s=pause))
            return
        await _recorded(lambda: self._jobs.fail(job, error))
        self._files.portrait(job.id).unlink(missing_ok=True)

    async def _film(self, job: VideoJob, place: Place, progress: Progress) -> int:
        """Run the turn and make the previews; returns the number of frames."""
        outcome = Outcome()
        clip = self._files.result(job.id)
        request = await self._request(job)
        turn = self._runner.run(request, place, outcome, clip, Priority.BATCH)
        async with aclosing(turn):
            async for event in turn:
                progress.note(event)
                if isinstance(event, TurnFailed):
                    raise event.error
        if outcome.fault is not None:
            raise outcome.fault
        if outcome.clip is None:
            raise E3RGError(
                "no_video", "the listener's reply had nothing to speak; change the prompt or seed"
            )
        previews = await asyncio.to_thread(take_previews, clip)
        thumbnail, sheet = (self._files.result(job.id, v) for v in ("thumbnail", "spritesheet"))
        await asyncio.to_thread(write_file, thumbnail, previews.thumbnail)
        await asyncio.to_thread(write_file, sheet, previews.sheet)
        return previews.frames

    async def _request(self, job: VideoJob) -> TurnRequest:
        identity = await asyncio.to_thread(self._identities.get, job.identity)
        if job.own_portrait:
            try:
                portrait = await asyncio.to_thread(self._files.portrait(job.id).read_bytes)
            except FileNotFoundError as error:
                raise E3RGError(
                    "portrait_lost",
                    "the portrait is no longer on the server's disk; send it again",
                    param="input_reference",
                ) from error
            kept = await asyncio.to_thread(self._identities.put_portrait, portrait)
            identity = replace(identity, portrait=kept)
        turn = new_turn(
            self._limits,
            identity,
            conversation=job.turn.replace("turn_", "conv_"),
            seed=job.seed,
            max_tokens=job.seconds * TOKENS_A_SECOND,
        )
        return replace(
            turn,
            id=job.turn,
            tenant=job.tenant,
            text=job.prompt,
            user=job.user,
            reply_with=Modality.VIDEO,
            policy=ListenerPolicy(job.policy),
            max_sentences=min(job.seconds // SECONDS_A_SENTENCE, turn.max_sentences),
            may_degrade=False,
            # A lease that is over does not come back, so each attempt has its own.
            work=new_id(job.turn),
        )


async def _recorded(write: Callable[[], Awaitable[bool]]) -> None:
    """Write to the database, patiently; in vain, the lease runs out and the job is tried again."""
    for pause in (*_RECORD_PAUSES_S, None):
        try:
            await write()
        except E3RGError as error:
            if pause is None:
                log.error("the end of a video job is not recorded: %s", error.message)
                return
            await asyncio.sleep(pause)
        else:
            return
