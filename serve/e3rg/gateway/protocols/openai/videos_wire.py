"""What /v1/videos takes and gives (https://platform.openai.com/docs/api-reference/videos)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from e3rg.emotions.table import ListenerPolicy
from e3rg.gateway.bodies import Id, Seed, Strict, User
from e3rg.gateway.catalog import LISTENER
from e3rg.records.jobs import VideoJob
from e3rg.stages.avatar.engine import SIZE

SECONDS = ("4", "8", "12")
SIZES = (f"{SIZE}x{SIZE}",)


class VideoBody(Strict):
    """What a client sends; ``input_reference`` is a file and comes by multipart."""

    prompt: str = Field(
        description="what a person says; the video is the listener's answer",
        json_schema_extra={"minLength": 1},
    )
    model: str = Field(default=LISTENER, description="a listener, see /v1/models")
    seconds: str = Field(
        default="4",
        description="about the longest that the answer may be",
        json_schema_extra={"enum": list(SECONDS)},
    )
    size: str = Field(
        default=SIZES[0],
        description="pixels, width and height",
        json_schema_extra={"enum": list(SIZES)},
    )
    identity: Id | None = Field(
        default=None, description="who listens, see /v1/identities (extension)"
    )
    user: User | None = Field(
        default=None, description="who speaks: gives access to this user's own memory"
    )
    policy: ListenerPolicy = Field(
        default=ListenerPolicy.EMPATHISE,
        description="how the listener's expression follows the speaker's emotion (extension)",
    )
    seed: Seed | None = Field(
        default=None, description="repeats reply, motion and blinks (extension)"
    )


class VideoFault(BaseModel):
    """Why a video failed."""

    code: str
    message: str


class Video(BaseModel):
    """A video job.

    Attributes:
        seconds: as asked for; of a finished video, how long it is.
        identity, seed: who listens, and what repeats the video (extensions).
        turn: the exchange in it, see ``GET /v1/turns/{id}`` once it is finished (extension).
    """

    id: str
    object: Literal["video"] = "video"
    status: Literal["queued", "in_progress", "completed", "failed"]
    progress: Annotated[int, Field(ge=0, le=100)]
    model: str
    prompt: str
    seconds: str
    size: str = SIZES[0]
    created_at: int
    completed_at: int | None
    expires_at: int | None
    error: VideoFault | None
    remixed_from_video_id: None = None
    identity: str
    seed: int
    turn: str


class VideoList(BaseModel):
    """A page of videos; ``last_id`` is the next page's ``after``."""

    object: Literal["list"] = "list"
    data: list[Video]
    first_id: str | None
    last_id: str | None
    has_more: bool


class VideoDeleted(BaseModel):
    """A video that is no more."""

    id: str
    object: Literal["video.deleted"] = "video.deleted"
    deleted: Literal[True] = True


def video_of(job: VideoJob) -> Video:
    """A job as it is sent."""
    error = None
    if job.error_code is not None:
        error = VideoFault(code=job.error_code, message=job.error_message or "")
    fields: dict[str, Any] = {
        "seconds": f"{job.seconds if job.length is None else round(job.length, 2):g}",
        "completed_at": None if job.completed is None else int(job.completed),
        "expires_at": None if job.expires is None else int(job.expires),
    }
    return Video(
        id=job.id,
        status=job.status,  # type: ignore[arg-type]
        progress=job.progress,
        model=job.model,
        prompt=job.prompt,
        created_at=int(job.created),
        error=error,
        identity=job.identity,
        seed=job.seed,
        turn=job.turn,
        **fields,
    )
