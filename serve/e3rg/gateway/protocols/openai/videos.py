"""/v1/videos: the listener's answers as jobs that outlive a connection and a restart."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Literal

from fastapi import APIRouter, FastAPI, Query, Request
from starlette.responses import Response

from e3rg.admission.contracts import Spend
from e3rg.deadline import bounded
from e3rg.errors import E3RGError
from e3rg.gateway.access import principal
from e3rg.gateway.bodies import parse, unsupported
from e3rg.gateway.files import StoredFile
from e3rg.gateway.idempotency import Attempt, fingerprint, in_progress
from e3rg.gateway.ids import new_id
from e3rg.gateway.intake import clean_text
from e3rg.gateway.openapi import fails, gives, takes
from e3rg.gateway.protocols.openai.videos_wire import (
    SECONDS,
    SIZES,
    Video,
    VideoBody,
    VideoDeleted,
    VideoList,
    video_of,
)
from e3rg.gateway.services import Services
from e3rg.gateway.streaming import until_gone
from e3rg.gateway.uploads import is_form, read_body, refuse_other_files
from e3rg.gateway.videos.files import MEDIA_TYPES
from e3rg.identities.types import MAX_PORTRAIT_BYTES
from e3rg.records.jobs import VideoJob

_FILE = "input_reference"
_INSPECT_S = 30.0
_QUEUE_S = 10.0
"""A request that was accepted has its row within so many seconds."""
_KINDS = sorted(set(MEDIA_TYPES.values()))
_CONTENT = {
    **gives(binary=_KINDS, description="The file."),
    **gives(
        binary=_KINDS,
        status=206,
        description="The part that `Range` asked for (RFC 9110 section 14).",
    ),
    **fails(409, 416, 503),
}


def router(services: Services) -> APIRouter:
    """Make the routes; the worker of this replica runs as long as they are served."""
    videos = services.videos

    @asynccontextmanager
    async def working(app: FastAPI) -> AsyncGenerator[None, None]:
        videos.worker.start()
        yield
        await videos.worker.close()

    routes = APIRouter(prefix="/v1/videos", lifespan=working)

    @routes.post(
        "",
        response_model=Video,
        openapi_extra=takes(json=VideoBody, form=VideoBody, files={_FILE: False}),
    )
    async def create_video(request: Request) -> Video:
        """Have a listener answer what somebody says, as a video that is made later."""
        job, portrait, asked = await _read(request, services)
        attempt = await services.idempotency.begin(request, job.tenant, asked, job.id)
        if attempt is not None and not attempt.first:
            if (before := await _before(services, attempt)) is not None:
                return video_of(before)
            await services.idempotency.retry(attempt, job.id)
        async with services.idempotency.kept(attempt):
            await videos.add(job, portrait)
        return video_of(job)

    @routes.get("", response_model=VideoList, responses=fails(503))
    async def list_videos(
        after: Annotated[
            str | None, Query(description="id that the page before ended with")
        ] = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        order: Literal["asc", "desc"] = "desc",
    ) -> VideoList:
        """All videos, by the time they were asked for."""
        page = await videos.page(limit, after, order == "desc")
        listed = [video_of(job) for job in page.jobs]
        return VideoList(
            data=listed,
            first_id=listed[0].id if listed else None,
            last_id=listed[-1].id if listed else None,
            has_more=page.more,
        )

    @routes.get("/{video_id}", response_model=Video, responses=fails(503))
    async def retrieve_video(video_id: str) -> Video:
        """A video job as it stands."""
        return video_of(await videos.get(video_id))

    @routes.delete("/{video_id}", response_model=VideoDeleted, responses=fails(503))
    async def delete_video(video_id: str) -> VideoDeleted:
        """Delete a video; if it is being made, that stops."""
        await videos.delete(video_id)
        return VideoDeleted(id=video_id)

    @routes.get("/{video_id}/content", response_class=Response, responses=_CONTENT)
    async def download_video_content(
        video_id: str, variant: Literal["video", "thumbnail", "spritesheet"] = "video"
    ) -> StoredFile:
        """The finished video, its middle frame, or a sheet of its frames."""
        expired = E3RGError(
            "video_expired",
            f"the files of video {video_id} are no longer kept; create it again with its seed",
            param="video_id",
            status=404,
        )
        path = await videos.result(video_id, variant)
        return StoredFile(path, MEDIA_TYPES[variant], expired)

    return routes


async def _before(services: Services, attempt: Attempt) -> VideoJob | None:
    """The video of a request that was sent before; None if it was deleted since.

    Raises:
        E3RGError: ``idempotency_in_progress`` (409).
    """
    job = await services.videos.jobs.get(attempt.row.target)
    if job is None and time.time() - attempt.row.created < _QUEUE_S:
        raise in_progress()
    return job


async def _read(
    request: Request, services: Services
) -> tuple[VideoJob, bytes | None, Callable[[], Awaitable[str]]]:
    """Read and check a request: what is accepted can be made.

    Returns:
        The job, the portrait that came with it, and what makes the request's fingerprint.

    Raises:
        E3RGError: naming the field and the fix.
    """
    async with AsyncExitStack() as stack:
        fields, files = await read_body(request, stack, MAX_PORTRAIT_BYTES)
        # The client spells {"image_url": ...} of a form as input_reference[image_url].
        linked = [name for name in fields if name == _FILE or name.startswith(f"{_FILE}[")]
        if any(fields[name] not in (None, "") for name in linked):
            raise unsupported(
                _FILE,
                "an address or a file id is not taken; send the picture itself as a file",
            )
        refuse_other_files(files, _FILE)
        fields = {name: value for name, value in fields.items() if name not in linked}
        body = parse(VideoBody, fields, strict=not is_form(request))
        job = await _job(body, services)
        told = await fingerprint(body.model_dump_json(), files)

        async def asked() -> str:
            return told

        if _FILE not in files:
            return job, None, asked
        job.own_portrait = True
        portrait = await files[_FILE].read()
        await until_gone(request.receive, _preflight(portrait, services))
        return job, portrait, asked


async def _job(body: VideoBody, services: Services) -> VideoJob:
    limits = services.profile.turn
    if body.seconds not in SECONDS:
        raise E3RGError(
            "unsupported_seconds",
            f"seconds is {body.seconds[:16]!r}; use one of {', '.join(SECONDS)}",
            param="seconds",
        )
    if body.size not in SIZES:
        raise E3RGError(
            "unsupported_size",
            f"size is {body.size[:16]!r}; the listeners are filmed in {', '.join(SIZES)} only",
            param="size",
        )
    prompt = clean_text(body.prompt, limits.max_text_chars, limits.languages, "prompt")
    model = await services.catalog.find(body.model, "listener")
    identity = await services.listener(model.listener(body.identity, "identity"))
    return VideoJob(
        id=new_id("video"),
        tenant=principal.current().tenant,
        created=time.time(),
        model=model.id,
        prompt=prompt,
        seconds=int(body.seconds),
        identity=identity.id,
        own_portrait=False,
        user=body.user,
        policy=body.policy.value,
        seed=random.getrandbits(31) if body.seed is None else body.seed,
        status="queued",
        progress=0,
        attempts=0,
        lease=0.0,
    )


async def _preflight(portrait: bytes, services: Services) -> None:
    """Check the listener's portrait: a job that cannot be made is not accepted."""
    try:
        with services.calls.take() as place:
            async with bounded(time.time() + _INSPECT_S):
                await services.admitter.call(place, "avatar", Spend())
                await services.stages.avatar.inspect(portrait)
    except E3RGError as error:
        if error.param == "portrait":
            error.param = _FILE
        raise
