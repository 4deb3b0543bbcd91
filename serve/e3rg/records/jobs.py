"""Video jobs: rows that outlive the process that works on them.

A worker claims a job by one atomic UPDATE, which gives it a lease under a token of its own; only
the holder of the token can renew, finish or return the job. A lease that is not renewed in time
expires, and the job can be claimed anew. Times are Unix times; the clocks of the replicas are
assumed to agree within a second, as in ``e3rg.deadline``.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Float,
    Index,
    Integer,
    String,
    Text,
    and_,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from e3rg.errors import E3RGError
from e3rg.records.database import Base, Database, changed
from e3rg.tenancy import LOCAL

MAX_ATTEMPTS = 3
_UNFINISHED = ("queued", "in_progress")

Keep = Literal["all", "results", "nothing"]
"""What of a job's files is needed: an unfinished job needs its portrait too."""


class VideoJob(Base):
    """One video that was asked for.

    Attributes:
        id: the job.
        tenant: whose.
        created: Unix time, seconds; also of ``completed`` (done or failed) and ``expires`` (of its
            files).
        model: true name of the listener's model.
        prompt: what a person says.
        seconds: the length asked for.
        length: seconds of the finished clip.
        identity: the listener's id.
        own_portrait: the job brought a portrait of its own.
        user: who speaks, or None.
        policy: of the listener's expression.
        seed: makes every attempt give the same frames.
        status: ``queued``, ``in_progress``, ``completed`` or ``failed``.
        progress: 0 to 100.
        attempts: how often it was begun.
        lease: until then nobody else may begin it.
        holder: token of whoever works on it.
        error_code, error_message: why it failed.
    """

    __tablename__ = "video_jobs"
    __table_args__ = (
        Index("video_jobs_by_status", "status", "created"),
        Index("video_jobs_by_created", "created", "id"),
    )

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(48), default=LOCAL, index=True)
    created: Mapped[float] = mapped_column(Float)
    model: Mapped[str] = mapped_column(String(128))
    prompt: Mapped[str] = mapped_column(Text)
    seconds: Mapped[int] = mapped_column(Integer)
    length: Mapped[float | None] = mapped_column(Float)
    identity: Mapped[str] = mapped_column(String(64))
    own_portrait: Mapped[bool] = mapped_column(default=False)
    user: Mapped[str | None] = mapped_column(String(256))
    policy: Mapped[str] = mapped_column(String(16))
    seed: Mapped[int] = mapped_column(Integer)
    status: Mapped[str] = mapped_column(String(16), default="queued")
    progress: Mapped[int] = mapped_column(Integer, default=0)
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    lease: Mapped[float] = mapped_column(Float, default=0.0)
    holder: Mapped[str | None] = mapped_column(String(32))
    completed: Mapped[float | None] = mapped_column(Float)
    expires: Mapped[float | None] = mapped_column(Float)
    error_code: Mapped[str | None] = mapped_column(String(64))
    error_message: Mapped[str | None] = mapped_column(Text)

    @property
    def turn(self) -> str:
        """Id of the turn in it; named by the job, so that an attempt replaces the one before."""
        return f"turn_{self.id.removeprefix('video_')}"


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs of a list, and whether there are more behind them."""

    jobs: Sequence[VideoJob]
    more: bool


class JobStore:
    """The jobs of all replicas.

    Args:
        database: where they are kept.
        waiting: jobs that may be unfinished at once; on SQLite exactly, on other databases
            requests in the same instant may add a few.
        keep: newest finished jobs kept.
        lease_s: seconds for which a claim or a renewal holds.
        clock: the time, for tests.
    """

    def __init__(
        self,
        database: Database,
        waiting: int = 32,
        keep: int = 500,
        lease_s: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        database.create(VideoJob)
        self._database = database
        self._waiting = waiting
        self._keep = keep
        self._now = clock
        self.lease_s = lease_s

    async def add(self, job: VideoJob) -> None:
        """Queue a job.

        Raises:
            E3RGError: ``video_queue_full`` (503).
        """

        def work(session: Session) -> None:
            session.add(job)
            # Counted behind the insert, which holds SQLite's write lock: two requests at once
            # cannot both get the last place.
            session.flush()
            waiting = session.scalar(
                select(func.count()).select_from(VideoJob).where(VideoJob.status.in_(_UNFINISHED))
            )
            if waiting is not None and waiting > self._waiting:
                raise E3RGError(
                    "video_queue_full",
                    f"{self._waiting} videos are waiting or in work already; try again later",
                    status=503,
                    retry_after=30,
                )

        await self._database.run(work)

    async def get(self, job: str) -> VideoJob | None:
        """A job by id."""
        return await self._database.run(lambda session: session.get(VideoJob, job))

    async def page(self, limit: int, after: str | None = None, newest_first: bool = True) -> Page:
        """Part of the list of all jobs.

        Args:
            limit: the most jobs.
            after: id of the last job of the page before.
            newest_first: or oldest first.

        Raises:
            E3RGError: ``invalid_after``.
        """

        def work(session: Session) -> Page:
            query = select(VideoJob)
            if after is not None:
                last = session.get(VideoJob, after)
                if last is None:
                    raise invalid_after(after)
                older = or_(
                    VideoJob.created < last.created,
                    and_(VideoJob.created == last.created, VideoJob.id < last.id),
                )
                same = VideoJob.id == last.id
                query = query.where(older if newest_first else ~or_(older, same))
            keys = (VideoJob.created, VideoJob.id)
            order = [key.desc() for key in keys] if newest_first else [key.asc() for key in keys]
            found = session.scalars(query.order_by(*order).limit(limit + 1)).all()
            return Page(found[:limit], len(found) > limit)

        return await self._database.run(work)

    async def claim(self) -> VideoJob | None:
        """Begin the oldest job that nobody works on; None if there is none.

        Its ``holder`` is the token for the other calls. Jobs that were begun as often as may be are
        failed on the way.
        """
        token = secrets.token_hex(16)
        # Looking costs no write lock, and most often there is nothing to do.
        look = select(VideoJob.id).where(_free(self._now())).limit(1)
        if await self._database.run(lambda session: session.scalar(look)) is None:
            return None

        def work(session: Session) -> VideoJob | None:
            now = self._now()
            free = _free(now)
            spent = and_(free, VideoJob.attempts >= MAX_ATTEMPTS)
            session.execute(
                update(VideoJob)
                .where(spent)
                .values(
                    status="failed",
                    holder=None,
                    completed=now,
                    error_code="attempts_exhausted",
                    error_message=f"the work was broken off {MAX_ATTEMPTS} times; ask again",
                )
            )
            oldest = (
                select(VideoJob.id).where(free).order_by(VideoJob.created, VideoJob.id).limit(1)
            )
            # The outer condition is checked again when a concurrent claim has changed the row.
            claimed = session.scalars(
                update(VideoJob)
                .where(VideoJob.id.in_(oldest), free)
                .values(
                    status="in_progress",
                    progress=0,
                    attempts=VideoJob.attempts + 1,
                    lease=now + self.lease_s,
                    holder=token,
                )
                .returning(VideoJob)
                .execution_options(populate_existing=True, synchronize_session=False)
            )
            return claimed.one_or_none()

        return await self._database.run(work)

    async def renew(self, job: VideoJob, progress: int) -> bool:
        """Keep a job and tell how far it is; False if it is deleted or another's by now."""
        return await self._held(job, lease=self._now() + self.lease_s, progress=progress)

    async def complete(self, job: VideoJob, length: float, keep_s: float) -> bool:
        """Finish a job; False if it is deleted or another's by now.

        Args:
            job: as it was claimed.
            length: seconds of the clip.
            keep_s: seconds for which the files are kept.
        """
        now = self._now()
        return await self._held(
            job,
            status="completed",
            progress=100,
            length=length,
            holder=None,
            completed=now,
            expires=now + keep_s,
        )

    async def fail(self, job: VideoJob, error: E3RGError) -> bool:
        """End a job for good; False if it is deleted or another's by now."""
        return await self._held(
            job,
            status="failed",
            holder=None,
            completed=self._now(),
            error_code=error.code,
            error_message=error.message,
        )

    async def give_back(self, job: VideoJob, *, counted: bool, after_s: float = 0.0) -> bool:
        """Queue a job again; False if it is deleted or another's by now.

        Args:
            job: as it was claimed.
            counted: whether this was one of its attempts.
            after_s: it is not begun again before so many seconds.
        """
        return await self._held(
            job,
            status="queued",
            progress=0,
            attempts=job.attempts if counted else job.attempts - 1,
            lease=self._now() + after_s,
            holder=None,
        )

    async def remove(self, job: str) -> bool:
        """Delete a job, whatever its state; False if there is none."""
        query = delete(VideoJob).where(VideoJob.id == job)
        return await self._database.run(lambda session: changed(session.execute(query)))

    async def states(self) -> dict[str, Keep]:
        """All jobs (as many as ``keep`` and ``waiting`` allow), and what of their files is kept."""
        query = select(VideoJob.id, VideoJob.status, VideoJob.expires)
        rows = await self._database.run(lambda session: session.execute(query).all())
        now = self._now()
        states: dict[str, Keep] = {}
        for job, status, expires in rows:
            if status in _UNFINISHED:
                states[job] = "all"
            else:
                states[job] = "results" if expires is not None and expires > now else "nothing"
        return states

    async def prune(self) -> None:
        """Delete the oldest finished jobs beyond the bound."""

        def work(session: Session) -> None:
            finished = VideoJob.status.not_in(_UNFINISHED)
            newest = (
                select(VideoJob.id)
                .where(finished)
                .order_by(VideoJob.created.desc(), VideoJob.id.desc())
                .limit(self._keep)
            )
            session.execute(delete(VideoJob).where(finished, VideoJob.id.not_in(newest)))

        await self._database.run(work)

    async def _held(self, job: VideoJob, **values: Any) -> bool:
        query = (
            update(VideoJob)
            .where(VideoJob.id == job.id, VideoJob.holder == job.holder)
            .values(**values)
            .execution_options(synchronize_session=False)
        )
        return await self._database.run(lambda session: changed(session.execute(query)))


def invalid_after(after: str) -> E3RGError:
    """The answer to a page behind a job that there is not."""
    return E3RGError(
        "invalid_after",
        f"after: there is no video {after[:64]!r}; start the list anew",
        param="after",
    )


def _free(now: float) -> ColumnElement[bool]:
    return and_(VideoJob.status.in_(_UNFINISHED), VideoJob.lease <= now)
