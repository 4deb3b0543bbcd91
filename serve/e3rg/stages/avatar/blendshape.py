"""The `blendshape` avatar: a portrait moved by displacement fields, in real time on one core."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from e3rg.config import ConfigError
from e3rg.emotions.types import Delivery
from e3rg.engines import EngineContext, PortraitSource
from e3rg.errors import E3RGError
from e3rg.identities.preflight import inspect_portrait
from e3rg.identities.types import PortraitRef, PortraitReport
from e3rg.media.segment_encoder import SegmentEncoder
from e3rg.media.types import Still, VideoPacket
from e3rg.stages.avatar.engine import FPS, SIZE, RenderRequest, VideoChunk
from e3rg.stages.avatar.expression import expression_track, expression_weights
from e3rg.stages.avatar.folds import fold_strengths
from e3rg.stages.avatar.motion import STILL, pose
from e3rg.stages.avatar.portrait import frame_portrait
from e3rg.stages.avatar.render import Renderer
from e3rg.stages.avatar.rig import Rig, build_rig
from e3rg.stages.avatar.rigcache import RigCache
from e3rg.stages.avatar.visemes import REST, Mouth, mouth_track
from e3rg.stages.avatar.weights import frame_weights
from e3rg.vision.face import FaceFinder

T = TypeVar("T")

_FIRST_CHUNK, _CHUNK = 3, 8  # frames; the first is small, since a viewer waits for it


class BlendshapeAvatar:
    """Renders segments of any portrait with a face.

    Args:
        faces: face finder.
        portraits: where portrait bytes come from.
        threads: segments rendered at once; each uses one core.
        portraits_kept: prepared portraits held in memory, about 4 MB each.
    """

    def __init__(
        self, faces: FaceFinder, portraits: PortraitSource, threads: int, portraits_kept: int
    ) -> None:
        self._faces = faces
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="avatar")
        self._rigs = RigCache(lambda ref: self._prepare(portraits, ref), portraits_kept)

    @classmethod
    def load(cls, context: EngineContext, *, threads: int = 1, portraits_kept: int = 8) -> Self:
        """Load the face models.

        Raises:
            ConfigError: for ``threads`` or ``portraits_kept`` below 1.
        """
        for name, value in (("threads", threads), ("portraits_kept", portraits_kept)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"avatar option {name} must be a whole number of at least 1")
        # OpenCV's own threads would compete with the other stages for the same cores.
        cv2.setNumThreads(1)
        return cls(FaceFinder.load(context.models), context.portraits, threads, portraits_kept)

    async def render(self, request: RenderRequest) -> AsyncGenerator[VideoChunk, None]:
        """Render a segment; chunks come as soon as their frames are encoded.

        Raises:
            E3RGError: ``audio_not_whole_frames``, ``unknown_portrait``, ``portrait_no_face``.
        """
        frame_count(request)
        stop = threading.Event()
        try:
            rig = await self._run(self._rigs.get, request.portrait)
            chunks = _chunks(rig, request, stop)
            # The pool is given one chunk at a time, so that segments rendered at once take turns.
            while (chunk := await self._run(next, chunks, None)) is not None:
                yield chunk
        finally:
            stop.set()

    async def prepare(self, portrait: PortraitRef) -> None:
        """See AvatarEngine."""
        await self._run(self._rigs.get, portrait)

    async def still(self, portrait: PortraitRef, delivery: Delivery) -> Still:
        """One picture with the expression, JPEG.

        Raises:
            E3RGError: ``unknown_portrait``, ``portrait_no_face``.
        """
        return await self._run(self._still, portrait, delivery)

    async def inspect(self, portrait: bytes) -> PortraitReport:
        """Preflight a portrait file; see AvatarEngine."""
        return await self._run(inspect_portrait, portrait, self._faces)

    def close(self) -> None:
        """Stop the threads and drop the prepared portraits."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._rigs.clear()

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def _prepare(self, portraits: PortraitSource, ref: PortraitRef) -> Rig:
        return build_rig(frame_portrait(portraits.portrait(ref), self._faces, SIZE))

    def _still(self, portrait: PortraitRef, delivery: Delivery) -> Still:
        rig = self._rigs.get(portrait)
        expression = expression_weights(delivery)
        renderer = Renderer(rig)
        renderer.shade(fold_strengths(expression))
        frame = renderer.render(frame_weights(expression, REST, STILL, rig.smile), REST, STILL)
        image = cv2.cvtColor(frame, cv2.COLOR_YUV2BGR_I420)
        return Still(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes())


def frame_count(request: RenderRequest) -> int:
    """Frames of a segment.

    Raises:
        E3RGError: ``audio_not_whole_frames``.
    """
    frames, rest = divmod(request.audio.samples * FPS, request.audio.sample_rate)
    if rest:
        raise E3RGError(
            "audio_not_whole_frames",
            f"audio has {request.audio.samples} samples at {request.audio.sample_rate} Hz, which "
            f"is not a whole number of frames at {FPS} a second; pad it with silence",
            param="audio",
        )
    return frames


def render_frames(rig: Rig, request: RenderRequest) -> Iterator[NDArray[np.uint8]]:
    """A segment's frames, before encoding.

    Yields:
        I420 pictures, shape (SIZE * 3 / 2, SIZE); each is valid until the next.
    """
    count = frame_count(request)
    mouths = mouth_track(request.phonemes, request.audio, count, FPS)
    expressions = expression_track(request.delivery, request.previous, count, FPS)
    renderer = Renderer(rig)
    for index in range(count):
        mouth = Mouth(*(float(value) for value in mouths[index]))
        at = pose(request.seed, request.first_frame + index, FPS)
        weights = frame_weights(expressions[index], mouth, at, rig.smile)
        renderer.shade(fold_strengths(expressions[index]))
        yield renderer.render(weights, mouth, at)


def _chunks(rig: Rig, request: RenderRequest, stop: threading.Event) -> Iterator[VideoChunk]:
    encoder = SegmentEncoder(SIZE, FPS)
    packets: list[VideoPacket] = []
    first, wanted = request.first_frame, _FIRST_CHUNK
    for frame in render_frames(rig, request):
        if stop.is_set():
            return
        packets += encoder.encode(frame)
        if len(packets) >= wanted:
            yield VideoChunk(tuple(packets), first)
            first, wanted = first + len(packets), _CHUNK
            packets = []
    packets += encoder.finish()
    if packets:
        yield VideoChunk(tuple(packets), first)
