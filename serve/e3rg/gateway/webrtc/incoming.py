"""The speaker's tracks: a microphone that is heard, a camera that is looked at now and then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import av
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError

from e3rg.gateway.webrtc.sound import put_newest
from e3rg.media.stills import to_jpeg
from e3rg.media.types import SPEECH_INPUT_RATE, Pcm

_WAITING = 150  # pieces of 20 ms; a session that is busy for longer misses the oldest
_AHEAD_S = 3.0  # sound may come so much faster than time passes
_GAP_S = 1.0  # lost packets become silence, up to this
_STILL_S = 0.7
_STILL_SIDE = 512


class Microphone:
    """Hands the speaker's sound on, 16 kHz mono.

    The track is always read, since what nobody reads is kept without bound; a sender that is faster
    than time is cut to time.

    Args:
        track: the remote track (Opus, decoded).
        hear: takes the sound, piece by piece.
    """

    def __init__(self, track: MediaStreamTrack, hear: Callable[[Pcm], Awaitable[None]]) -> None:
        self._track = track
        self._hear = hear
        self._queue: asyncio.Queue[Pcm] = asyncio.Queue(_WAITING)

    async def run(self) -> None:
        """Hear until the track ends, or until cancelled."""
        hearing = asyncio.create_task(self._pass_on())
        try:
            await self._read()
        finally:
            hearing.cancel()
            await asyncio.wait({hearing})

    async def _read(self) -> None:
        resampler = av.AudioResampler("s16", "mono", SPEECH_INPUT_RATE)
        allowance, last = _AHEAD_S, time.monotonic()
        due: int | None = None
        while True:
            try:
                frame: Any = await self._track.recv()
            except MediaStreamError:
                return
            now = time.monotonic()
            allowance, last = min(_AHEAD_S, allowance + now - last), now
            gap = 0 if due is None or frame.pts is None else frame.pts - due
            # Of every frame, so that those that are cut here do not look like lost ones.
            due = None if frame.pts is None else frame.pts + frame.samples
            gap = gap if 0 < gap <= _GAP_S * frame.sample_rate else 0
            seconds = (gap + frame.samples) / frame.sample_rate
            if seconds > allowance:
                continue
            allowance -= seconds
            frame.pts = None
            sound = b"".join(
                bytes(part.planes[0])[: 2 * part.samples] for part in resampler.resample(frame)
            )
            if gap:
                sound = bytes(2 * (gap * SPEECH_INPUT_RATE // frame.sample_rate)) + sound
            if sound:
                put_newest(self._queue, Pcm(sound, SPEECH_INPUT_RATE))

    async def _pass_on(self) -> None:
        while True:
            await self._hear(await self._queue.get())


class Camera:
    """Takes a still now and then.

    Args:
        track: the remote track (decoded).
        look: takes a still, JPEG.
    """

    def __init__(self, track: MediaStreamTrack, look: Callable[[bytes], Awaitable[None]]) -> None:
        self._track = track
        self._look = look

    async def run(self) -> None:
        """Look until the track ends, or until cancelled."""
        looking: asyncio.Task[None] | None = None
        due = 0.0
        try:
            while True:
                try:
                    frame: Any = await self._track.recv()
                except MediaStreamError:
                    return
                # Frames go by while one is looked at.
                if time.monotonic() >= due and (looking is None or looking.done()):
                    due = time.monotonic() + _STILL_S
                    looking = asyncio.create_task(self._take(frame))
        finally:
            if looking is not None:
                looking.cancel()
                await asyncio.wait({looking})

    async def _take(self, frame: av.VideoFrame) -> None:
        await self._look(await asyncio.to_thread(to_jpeg, frame, _STILL_SIDE))
