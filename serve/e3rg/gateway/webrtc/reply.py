"""The sound and picture of one response, as the cells that are played: 40 ms each."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import soxr

from e3rg.media.types import Pcm, VideoPacket
from e3rg.stages.avatar.engine import FPS
from e3rg.turn.events import VideoFrames

RATE = 48_000
"""Hz; Opus runs at this clock (RFC 7587)."""

CELL_BYTES = 2 * RATE // FPS
"""PCM16 bytes of one video frame's sound."""

_FIRST, _AGAIN = 2, 5
"""Cells that wait before the sound starts, and before it goes on after it had to stall."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One video frame with exactly the sound that belongs to it.

    Attributes:
        sound: 40 ms of mono PCM16 at RATE.
        packet: the frame; None where the reply has no picture.
    """

    sound: bytes
    packet: VideoPacket | None


class Reply:
    """What of one response is still to be played.

    Args:
        response: its id.
        video: it has pictures; its sound then comes with them.

    Attributes:
        started: some of it was played.
        finished: nothing more comes.
        heard: bytes of its sound (at RATE) that were handed to the network.
    """

    def __init__(self, response: str, *, video: bool) -> None:
        self.response = response
        self.started = False
        self.finished = False
        self.heard = 0
        self._video = video
        self._sound = bytearray()
        self._packets: deque[VideoPacket] = deque()
        self._spoken = bytearray()  # at the speech's own rate, for when the pictures end early
        self._spoken_rate = 0
        self._resampler: soxr.ResampleStream | None = None
        self._rate = 0
        self._wanted = _FIRST

    @property
    def seconds(self) -> float:
        """How much is buffered."""
        return len(self._sound) / (2 * RATE)

    def speak(self, audio: Pcm) -> None:
        """One spoken piece, in order."""
        if self._video:
            self._spoken += audio.data
            self._spoken_rate = audio.sample_rate
        else:
            self._append(audio)

    def show(self, frames: VideoFrames) -> None:
        """Consecutive frames with their sound, in order."""
        if self._video:
            self._packets.extend(frames.packets)
            self._append(frames.audio)
            del self._spoken[: len(frames.audio.data)]

    def without_pictures(self) -> None:
        """No frame comes any more: the sound that was spoken goes on by itself."""
        if self._video:
            self._video = False
            if self._spoken:
                self._append(Pcm(bytes(self._spoken), self._spoken_rate))
                self._spoken.clear()

    def finish(self) -> None:
        """Nothing more comes; the last cell is filled with silence."""
        if self._video and self._spoken:
            self.without_pictures()
        self._flush()
        self._sound += bytes(-len(self._sound) % CELL_BYTES)
        self.finished = True

    @property
    def over(self) -> bool:
        """Everything has been played."""
        return self.finished and not self._cells

    def next(self) -> Cell | None:
        """The next cell; None while sound or picture of it is missing, so that both stall."""
        if not self.finished and self._cells < self._wanted:
            self._wanted = _AGAIN if self.started else _FIRST
            return None
        if not self._cells:
            return None
        self._wanted = 1
        self.started = True
        sound = bytes(self._sound[:CELL_BYTES])
        del self._sound[:CELL_BYTES]
        return Cell(sound, self._packets.popleft() if self._packets else None)

    @property
    def _cells(self) -> int:
        cells = len(self._sound) // CELL_BYTES
        # Frames that came before the pictures ended are shown with the sound they belong to.
        return min(cells, len(self._packets)) if self._video and not self.finished else cells

    def _append(self, audio: Pcm) -> None:
        if audio.sample_rate != self._rate:
            self._flush()
            self._rate = audio.sample_rate
            # One filter for the whole reply: pieces resampled one by one would click where they
            # meet. MQ holds back at most 6 ms of 24 kHz speech until the next piece.
            self._resampler = soxr.ResampleStream(self._rate, RATE, 1, "int16", "MQ")
        assert self._resampler is not None
        self._sound += self._resampler.resample_chunk(np.frombuffer(audio.data, "<i2")).tobytes()

    def _flush(self) -> None:
        if self._resampler is not None:
            rest = self._resampler.resample_chunk(np.zeros(0, np.int16), last=True)
            self._sound += rest.tobytes()
            self._resampler = None
