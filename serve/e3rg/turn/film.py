"""The reply's picture: each spoken piece becomes frames, or one picture where that cannot be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from e3rg.emotions.types import Delivery
from e3rg.errors import E3RGError
from e3rg.identities.types import PortraitRef
from e3rg.media.segment_encoder import encode_still
from e3rg.media.types import Still, VideoPacket
from e3rg.stages.avatar.engine import FPS, RenderRequest
from e3rg.turn.calls import call, iterate
from e3rg.turn.clock import MediaClock
from e3rg.turn.events import AudioChunk, VideoFrames
from e3rg.turn.progress import Progress
from e3rg.turn.request import Modality

log = logging.getLogger(__name__)

_RENDER_S = 30.0
"""Longest wait for the next frames, in seconds."""


class Film:
    """Renders a turn's video.

    Args:
        progress: the turn.
        delivery: the expression to show.
    """

    def __init__(self, progress: Progress, delivery: Delivery) -> None:
        self._progress = progress
        self._delivery = delivery

    async def run(self, spoken: asyncio.Queue[AudioChunk | None]) -> None:
        """Render what is spoken, in order, until None comes."""
        delivery = self._delivery
        previous = self._progress.request.previous
        still: Still | None = None
        if self._progress.request.still and (still := await self._freeze(delivery, None)) is None:
            await _drain(spoken)
            return
        while (chunk := await spoken.get()) is not None:
            clock = MediaClock(chunk.audio.sample_rate, FPS)
            first = chunk.first_sample // clock.samples_per_frame
            total = chunk.audio.samples // clock.samples_per_frame
            done = 0
            if still is None:
                try:
                    rendering = self._render(chunk, first, delivery, previous)
                    async with aclosing(rendering):
                        async for packets in rendering:
                            audio = clock.slice(chunk.audio, done, len(packets))
                            await self._show(VideoFrames(packets, audio, first + done))
                            done += len(packets)
                except E3RGError as error:
                    still = await self._freeze(delivery, error)
                    if still is None:
                        await _drain(spoken)  # sound goes on by itself
                        return
            if still is not None:
                held = await asyncio.to_thread(encode_still, still.jpeg, total - done)
                audio = clock.slice(chunk.audio, done, total - done)
                await self._show(VideoFrames(tuple(held), audio, first + done))
            previous = delivery

    async def _render(
        self, chunk: AudioChunk, first_frame: int, delivery: Delivery, previous: Delivery | None
    ) -> AsyncGenerator[tuple[VideoPacket, ...], None]:
        frames = self._progress.stages.avatar.render(
            RenderRequest(
                portrait=self._portrait,
                audio=chunk.audio,
                phonemes=chunk.phonemes,
                first_frame=first_frame,
                delivery=delivery,
                previous=previous,
                seed=self._progress.request.seed,
            )
        )
        async with aclosing(iterate("avatar", frames, _RENDER_S, _RENDER_S)) as rendered:
            async for video in rendered:
                yield video.packets

    async def _show(self, frames: VideoFrames) -> None:
        if frames.packets:
            self._progress.mark("first_frame")
            self._progress.spend(video_frames=len(frames.packets))
            await self._progress.emit(frames)

    async def _freeze(self, delivery: Delivery, error: E3RGError | None) -> Still | None:
        """One picture in place of frames; told unless it was conceded before the turn began."""
        try:
            still = await call(
                "avatar", self._progress.stages.avatar.still(self._portrait, delivery), _RENDER_S
            )
        except E3RGError as fault:
            await self._progress.degrade(Modality.VIDEO, Modality.AUDIO, error or fault)
            return None
        if error is not None:
            await self._progress.degrade(Modality.VIDEO, "still", error)
        return still

    @property
    def _portrait(self) -> PortraitRef:
        return self._progress.request.identity.portrait


async def prepare(progress: Progress) -> None:
    """Make the avatar ready while the reply is thought of."""
    portrait = progress.request.identity.portrait
    try:
        await call("avatar", progress.stages.avatar.prepare(portrait), _RENDER_S)
    except E3RGError as error:
        log.debug("not prepared, rendering will tell: %s", error.message)


async def _drain(queue: asyncio.Queue[AudioChunk | None]) -> None:
    while await queue.get() is not None:
        pass
