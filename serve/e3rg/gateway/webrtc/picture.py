"""The outgoing picture: the avatar's own packets, and the listener's still between replies."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import cv2
import numpy as np
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av.codec.context import Flags
from av.video.codeccontext import VideoCodecContext
from numpy.typing import NDArray

from e3rg.gateway.webrtc.sound import put_newest
from e3rg.media.segment_encoder import SegmentEncoder, encode_still
from e3rg.media.types import Still, VideoPacket
from e3rg.stages.avatar.engine import FPS

I420 = NDArray[np.uint8]
"""Planes Y, U, V below each other, shape (height * 3 / 2, width)."""

_CLOCK = Fraction(1, 90_000)
_TICK = 90_000 // 50  # a tick of the session's clock is 20 ms
_WAITING = 100  # frames
_REST_TICKS = 24  # between two pictures at rest: about 2 a second
_REST_PICTURES = 8  # from one key frame at rest to the next: about 4 s
_FADE_STEPS = 5  # frames from the reply's last picture to the still: 0.2 s
_KEY_S = 0.3
"""Key frames that the peer asks for are at least so far apart."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The listener at rest: one picture, and packets that hold it."""

    picture: I420
    packets: tuple[VideoPacket, ...]

    @classmethod
    def of(cls, still: Still) -> Rest:
        """Prepare a still; takes some 25 ms.

        Raises:
            ValueError: see encode_still.
        """
        packets = encode_still(still.jpeg, _REST_PICTURES)
        picture = cv2.imdecode(np.frombuffer(still.jpeg, np.uint8), cv2.IMREAD_COLOR)
        assert picture is not None  # encode_still has read it
        return cls(
            np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2YUV_I420), np.uint8), tuple(packets)
        )


@dataclass(frozen=True, slots=True)
class _Next:
    """What to send: a packet, or where there is none the still blended over the last picture."""

    tick: int
    packet: VideoPacket | None = None
    share: float = 0.0


class PictureTrack(MediaStreamTrack):
    """Gives the sender H.264 packets as the avatar made them, or decoded frames for VP8.

    Passing packets through costs nothing, but they have a key frame only where a spoken piece
    begins. So the track decodes along (0.4 ms a frame at 512 pixels, measured): when the peer asks
    for a key frame in between, it encodes what follows itself (2 ms a frame), up to the avatar's
    next key frame. The decoded picture also serves the cross-fade to the still.

    Args:
        rest: the listener at rest.

    Attributes:
        rest_as: the same, may be replaced at any time.
        passthrough: the peer takes H.264; known when codecs are negotiated.
    """

    kind = "video"

    def __init__(self, rest: Rest) -> None:
        super().__init__()
        self.rest_as = rest
        self.passthrough = True
        self._queue: asyncio.Queue[_Next | None] = asyncio.Queue(_WAITING)
        self._decoder: Any = VideoCodecContext.create("h264", "r")
        self._decoder.thread_count = 1
        self._decoder.flags |= Flags.low_delay
        self._last: I420 | None = None
        self._encoder: SegmentEncoder | None = None
        self._key_wanted = False
        self._key_sent = 0.0
        self._fading = 0
        self._resting: deque[VideoPacket] = deque()
        self._rest_due = 0

    def key_frame(self) -> None:
        """The peer lost the picture (PLI or FIR, RFC 4585 and RFC 5104)."""
        self._key_wanted = self._key_wanted or time.monotonic() - self._key_sent > _KEY_S

    def show(self, tick: int, packet: VideoPacket) -> None:
        """The picture at a time is the reply's."""
        self._fading = _FADE_STEPS
        self._resting.clear()
        self._put(_Next(tick, packet))

    def rest(self, tick: int) -> None:
        """Nothing is said at this time: the still, reached softly, and then sent sparsely."""
        if self._fading:
            self._fading -= 1
            self._put(_Next(tick, share=1 - self._fading / _FADE_STEPS))
            return
        if self._key_wanted:
            self._resting.clear()
        if self._resting and tick < self._rest_due:
            return
        if not self._resting:
            self._resting.extend(self.rest_as.packets)
        self._put(_Next(tick, self._resting.popleft()))
        self._rest_due = tick + _REST_TICKS

    def hold(self, tick: int) -> None:
        """The reply stalls at this time: the last picture stays."""
        if self._key_wanted:
            self._put(_Next(tick))

    async def recv(self) -> av.Packet[Any] | av.VideoFrame:
        """The next picture; see aiortc.MediaStreamTrack."""
        while True:
            item = await self._queue.get() if self.readyState == "live" else None
            if item is None:
                raise MediaStreamError
            made = await self._make(item)
            if made is not None:
                made.pts, made.time_base = item.tick * _TICK, _CLOCK
                return made

    def stop(self) -> None:
        """End the track, also for who waits for its next picture."""
        super().stop()
        put_newest(self._queue, None)

    def _put(self, item: _Next) -> None:
        if self._queue.full():  # a lost packet breaks those that refer to it
            self._key_wanted = True
        put_newest(self._queue, item)

    async def _make(self, item: _Next) -> av.Packet[Any] | av.VideoFrame | None:
        if item.packet is not None:
            self._follow(item.packet)
        elif self._last is not None:
            self._last = _blend(self._last, self.rest_as.picture, item.share)
        if self._last is None:
            return None
        if not self.passthrough:
            self._key_wanted = False  # aiortc's encoder was asked as well
            return av.VideoFrame.from_ndarray(self._last, format="yuv420p")
        if item.packet is not None and item.packet.keyframe:
            self._encoder = None
            self._key_done()
            return av.Packet(item.packet.data)
        if self._key_wanted or (item.packet is None and self._encoder is None):
            self._encoder = SegmentEncoder(self._last.shape[1], FPS)
            self._key_done()
        if self._encoder is None:
            assert item.packet is not None
            return av.Packet(item.packet.data)
        packets = await asyncio.to_thread(self._encoder.encode, self._last)
        return av.Packet(packets[0].data) if packets else None

    def _follow(self, packet: VideoPacket) -> None:
        try:
            for frame in self._decoder.decode(av.Packet(packet.data)):
                self._last = np.asarray(frame.to_ndarray(format="yuv420p"), np.uint8)
        except av.FFmpegError:
            self._key_wanted = True

    def _key_done(self) -> None:
        self._key_wanted = False
        self._key_sent = time.monotonic()


def _blend(picture: I420, other: I420, share: float) -> I420:
    if picture.shape != other.shape:
        return other if share else picture
    return np.asarray(cv2.addWeighted(picture, 1 - share, other, share, 0), np.uint8)
