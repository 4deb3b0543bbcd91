"""JPEG stills spread evenly over a video, without decoding all of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.container import InputContainer
from av.video.codeccontext import VideoCodecContext

from e3rg.media.limits import MediaLimits

PIXELS_TO_DECODE = 500_000_000
"""Above this many (about 240 frames of 1080p), key frames alone do, if there are enough."""


class Stills:
    """Plans stills while packets pass by (``note``), then takes them in a second pass (``take``).

    Two passes, since a recording made by a browser has neither a duration nor an index.

    Args:
        stream: the picture track.
        limits: number and size of the stills, and the time that may go into them.
    """

    def __init__(self, stream: Any, limits: MediaLimits) -> None:
        self.stream = stream
        self._index: int = stream.index
        self._limits = limits
        self._packets: list[tuple[Fraction, bool]] = []  # time and key flag, in the file's order
        self._start = self._end = Fraction(0)

    @property
    def seconds(self) -> float:
        """Duration of what was noted."""
        return float(self._end - self._start)

    def note(self, packet: Any) -> None:
        """Remember a packet's time."""
        if not packet.size:
            return
        at = _time(packet, self._end)
        self._start = min(self._start, at) if self._packets else at
        self._end = max(self._end, at + (packet.duration or 0) * packet.time_base)
        self._packets.append((at, packet.is_keyframe))

    def take(self, container: InputContainer) -> tuple[bytes, ...]:
        """Decode the stills from the same file, opened anew; those that can be had."""
        if not self._packets:
            return ()
        count = min(self._limits.max_frames, len(self._packets))
        step = (self._end - self._start) / count
        targets = [self._start + step * (i + Fraction(1, 2)) for i in range(count)]
        starts = [self._key_before(target) for target in targets]
        stream = container.streams[self._index]
        codec: Any = stream.codec_context
        codec.thread_count = 1
        codec.options = {"max_pixels": str(self._limits.max_pixels)}
        packets = _packets(container, stream, time.monotonic() + self._limits.timeout_s / 2)
        keys = set(starts)
        pixels = len(self._packets) * codec.width * codec.height
        if pixels > PIXELS_TO_DECODE and len(keys) == count:
            return tuple(_key_pictures(packets, codec, keys, self._limits.frame_side))
        return tuple(_pictures(packets, codec, targets, starts, self._limits.frame_side))

    def _key_before(self, target: Fraction) -> int:
        """Number of the packet at which decoding has to start for a time."""
        keys = [n for n, (at, key) in enumerate(self._packets) if key and at <= target]
        return max(keys, default=0)


def _pictures(
    packets: Iterator[tuple[int, Any]],
    codec: Any,
    targets: list[Fraction],
    starts: list[int],
    side: int,
) -> Iterator[bytes]:
    """The picture that is shown at each target, none twice."""
    done = 0
    newest: Any = None
    for number, packet in packets:
        if packet.size and number < starts[done]:
            continue
        if packet.size and number == starts[done]:
            codec.flush_buffers()
        for frame in _decode(codec, packet):
            at = _time(frame, Fraction(0))
            while newest is not None and at > targets[done]:
                yield to_jpeg(newest, side)
                newest = None
                done += 1
                if done == len(targets):
                    return
            newest = frame
    if newest is not None:
        yield to_jpeg(newest, side)


def _key_pictures(
    packets: Iterator[tuple[int, Any]], codec: Any, wanted: set[int], side: int
) -> Iterator[bytes]:
    for number, packet in packets:
        if number in wanted:
            frames = _decode(codec, packet) + _decode(codec, None)
            codec.flush_buffers()
            if frames:
                yield to_jpeg(frames[0], side)


def _packets(container: InputContainer, stream: Any, deadline: float) -> Iterator[tuple[int, Any]]:
    packets = enumerate(container.demux(stream))
    with contextlib.suppress(av.FFmpegError):  # the file breaks off
        for number, packet in packets:
            if time.monotonic() > deadline:
                return
            yield number, packet


def _decode(codec: Any, packet: Any) -> list[Any]:
    try:
        return list(codec.decode(packet if packet is not None and packet.size else None))
    except (av.FFmpegError, ValueError):  # a broken picture, or one of another size
        return []


def _time(item: Any, default: Fraction) -> Fraction:
    """Presentation time of a packet or frame, seconds."""
    ticks = item.pts if item.pts is not None else item.dts
    return default if ticks is None or item.time_base is None else ticks * item.time_base


def to_jpeg(frame: av.VideoFrame, side: int) -> bytes:
    """Encode a picture upright as JPEG with at most ``side`` pixels on its long side."""
    scale = min(1.0, side / max(frame.width, frame.height))
    width, height = (max(2, round(length * scale)) for length in (frame.width, frame.height))
    turns = round(frame.rotation / 90) % 4  # counterclockwise, as phones store it
    small = frame.reformat(width, height, "rgb24")
    if turns:
        upright = np.ascontiguousarray(np.rot90(small.to_ndarray(), turns), np.uint8)
        small = av.VideoFrame.from_ndarray(upright, format="rgb24")
    picture = small.reformat(format="yuvj420p", dst_color_range="JPEG")
    picture.pts, picture.time_base = 0, Fraction(1, 25)
    encoder = VideoCodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt = picture.width, picture.height, "yuvj420p"
    encoder.time_base = Fraction(1, 25)
    encoder.thread_count = 1
    encoder.options = {"qmin": "2", "qmax": "4"}
    return b"".join(bytes(packet) for packet in encoder.encode(picture) + encoder.encode(None))
