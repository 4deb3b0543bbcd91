"""The video jobs of this server, as its routes use them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

from e3rg.config import TurnConfig
from e3rg.errors import E3RGError
from e3rg.gateway.turns import TurnRunner
from e3rg.gateway.videos.files import Variant, VideoFiles
from e3rg.gateway.videos.worker import VideoWorker
from e3rg.identities.store import IdentityStore
from e3rg.media.previews import write_file
from e3rg.records.database import Database
from e3rg.records.jobs import JobStore, Page, VideoJob, invalid_after

_ID = re.compile(r"video_[0-9a-f]{24}")


@dataclass(frozen=True, slots=True)
class Videos:
    """Accepts jobs, shows them, and has them worked on.

    Attributes:
        jobs: the jobs of all replicas.
        files: their files.
        worker: works on them in this replica, from ``start`` to ``close``.
    """

    jobs: JobStore
    files: VideoFiles
    worker: VideoWorker

    @classmethod
    def create(
        cls,
        database: Database,
        folder: Path,
        runner: TurnRunner,
        identities: IdentityStore,
        limits: TurnConfig,
    ) -> Videos:
        """Open the table and the folder; see VideoWorker for what the others are."""
        jobs = JobStore(database)
        files = VideoFiles(folder)
        return cls(jobs, files, VideoWorker(jobs, files, runner, identities, limits))

    async def add(self, job: VideoJob, portrait: bytes | None) -> None:
        """Queue a job; its portrait lies on disk before its row can be seen.

        Raises:
            E3RGError: ``video_queue_full`` (503), ``disk_full`` (507).
        """
        if portrait is not None:
            await asyncio.to_thread(write_file, self.files.portrait(job.id), portrait)
        try:
            await self.jobs.add(job)
        except E3RGError:
            await asyncio.to_thread(self.files.remove, job.id)
            raise
        self.worker.wake()

    async def get(self, video: str) -> VideoJob:
        """A job.

        Raises:
            E3RGError: ``unknown_video`` (404).
        """
        job = await self.jobs.get(video) if _ID.fullmatch(video) else None
        if job is None:
            raise _unknown(video)
        return job

    async def page(self, limit: int, after: str | None, newest_first: bool) -> Page:
        """Part of the list of all jobs.

        Raises:
            E3RGError: ``invalid_after``.
        """
        if after is not None and not _ID.fullmatch(after):
            raise invalid_after(after)
        return await self.jobs.page(limit, after, newest_first)

    async def delete(self, video: str) -> None:
        """Delete a job and its files; if it runs here it stops at once, elsewhere shortly.

        Raises:
            E3RGError: ``unknown_video`` (404).
        """
        if not _ID.fullmatch(video) or not await self.jobs.remove(video):
            raise _unknown(video)
        await self.worker.cancel(video)
        await asyncio.to_thread(self.files.remove, video)

    async def result(self, video: str, variant: Variant) -> Path:
        """A finished job's file; it may be gone by the time it is opened.

        Raises:
            E3RGError: ``unknown_video`` (404), ``video_not_ready`` (409), ``video_failed`` (404).
        """
        job = await self.get(video)
        if job.status == "failed":
            raise E3RGError(
                "video_failed",
                f"video {video} failed: {job.error_message}",
                param="video_id",
                status=404,
            )
        if job.status != "completed":
            raise E3RGError(
                "video_not_ready",
                f"video {video} is {job.status}; wait until its status is completed",
                param="video_id",
                status=409,
            )
        return self.files.result(video, variant)


def _unknown(video: str) -> E3RGError:
    return E3RGError(
        "unknown_video",
        f"there is no video {video[:64]!r}; it was deleted, or use the id that create gave",
        param="video_id",
        status=404,
    )
