"""The outgoing sound: 20 ms of Opus at a time."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any, TypeVar

import av
import numpy as np
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av.audio.codeccontext import AudioCodecContext

from e3rg.gateway.webrtc.reply import RATE

Item = TypeVar("Item")

TICK_S = 0.02
_TICK = RATE // 50
_CLOCK = Fraction(1, RATE)
_WAITING = 50  # frames; a sender that takes none for a second loses the oldest


class SoundTrack(MediaStreamTrack):
    """Gives the sender Opus packets (RFC 7587), mono, 32 kbit/s.

    Encoded here and not by aiortc, whose encoder runs in the loop's thread pool: packets then leave
    when the pool is free, and not when they are due.
    """

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._queue: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(_WAITING)
        encoder = AudioCodecContext.create("libopus", "w")
        encoder.sample_rate = RATE
        encoder.layout = "mono"
        encoder.format = "s16"
        encoder.bit_rate = 32_000
        encoder.time_base = _CLOCK
        encoder.options = {"application": "voip", "fec": "1", "packet_loss": "5"}
        self._encoder = encoder

    def play(self, tick: int, sound: bytes) -> None:
        """Send 20 ms.

        Args:
            tick: number of the 20 ms on the session's clock.
            sound: mono PCM16 at RATE.
        """
        put_newest(self._queue, (tick, sound))

    async def recv(self) -> av.Packet[Any]:
        """The next packet; see aiortc.MediaStreamTrack."""
        item = await self._queue.get() if self.readyState == "live" else None
        if item is None:
            raise MediaStreamError
        tick, sound = item
        frame = av.AudioFrame.from_ndarray(
            np.frombuffer(sound, np.int16).reshape(1, -1), format="s16", layout="mono"
        )
        frame.sample_rate = RATE
        frame.pts, frame.time_base = tick * _TICK, _CLOCK
        (packet,) = self._encoder.encode(frame)
        packet.pts, packet.time_base = tick * _TICK, _CLOCK
        return packet

    def stop(self) -> None:
        """End the track, also for who waits for its next packet."""
        super().stop()
        put_newest(self._queue, None)


def put_newest(queue: asyncio.Queue[Item], item: Item) -> None:
    """Put an item; in a full queue it takes the oldest one's place."""
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(item)
