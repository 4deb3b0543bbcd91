"""One clock for what a peer hears and sees: both tracks are fed by one pump, 20 ms at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal

from e3rg.gateway.webrtc.picture import PictureTrack
from e3rg.gateway.webrtc.reply import CELL_BYTES, RATE, Reply
from e3rg.gateway.webrtc.sound import TICK_S, SoundTrack
from e3rg.turn.events import AudioChunk, VideoFrames

Change = Literal["started", "stopped", "cleared"]

BUFFER_S = 30.0
"""Sound that waits to be played; a turn that is further ahead is held back."""

_HALF = CELL_BYTES // 2
_SILENCE = bytes(_HALF)
_LATE_S = 1.0
"""Delays up to this are caught up with; after longer ones (a suspended machine) time skips."""


class Playout:
    """Plays replies in order.

    Tick i of the pump is 20 ms of sound with time stamp i * 20 ms, handed over at that time; every
    second tick has a picture with the same time stamp. So both tracks' RTP clocks and sender
    reports (RFC 3550, 6.4.1) describe one time line. Where sound or picture of a cell is missing,
    neither goes on.

    Args:
        sound: the outgoing sound.
        picture: the outgoing picture, or None for a peer that takes none.

    Attributes:
        changed: called when a response begins to be heard, was heard to its end, or was cut off.
    """

    def __init__(self, sound: SoundTrack, picture: PictureTrack | None) -> None:
        self.changed: Callable[[Change, str], None] = lambda change, response: None
        self._sound = sound
        self._picture = picture
        self._replies: deque[Reply] = deque()
        self._writing: Reply | None = None
        self._newest: Reply | None = None
        self._second: tuple[bytes, Reply] | None = None  # the other half of the cell that plays
        self._room = asyncio.Event()
        self._room.set()

    def begin(self, response: str, *, video: bool) -> None:
        """What follows belongs to this response; what came before is played first."""
        self.finish()
        self._writing = self._newest = Reply(response, video=video)
        self._replies.append(self._writing)

    async def speak(self, chunk: AudioChunk) -> None:
        """Add a spoken piece; waits while too much is buffered."""
        await self._room.wait()
        if self._writing is not None:
            self._writing.speak(chunk.audio)
            self._measure()

    async def show(self, frames: VideoFrames) -> None:
        """Add frames with their sound; waits while too much is buffered."""
        await self._room.wait()
        if self._writing is not None:
            self._writing.show(frames)
            self._measure()

    def without_pictures(self) -> None:
        """The response goes on with sound alone."""
        if self._writing is not None:
            self._writing.without_pictures()

    def finish(self) -> None:
        """The response is complete."""
        if self._writing is not None:
            self._writing.finish()
            self._writing = None

    def clear(self) -> None:
        """Play nothing more: the next 20 ms are silence, and the picture rests."""
        replies = tuple(self._replies)
        self._replies.clear()
        self._writing = self._second = None
        self._room.set()
        for reply in replies:
            self.changed("cleared", reply.response)

    @property
    def heard_s(self) -> float:
        """Seconds of the newest response's sound that were handed to the network."""
        return self._newest.heard / (2 * RATE) if self._newest is not None else 0.0

    async def run(self) -> None:
        """Feed the tracks until cancelled."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        tick = 0
        while True:
            late = loop.time() - start - tick * TICK_S
            if late > _LATE_S:
                tick += 2 * int(late / (2 * TICK_S))
            if tick % 2:
                self._play_second(tick)
            else:
                self._play(tick)
            tick += 1
            await asyncio.sleep(max(0.0, start + tick * TICK_S - loop.time()))

    def _play(self, tick: int) -> None:
        while self._replies and self._replies[0].over:
            reply = self._replies.popleft()
            if reply.started:
                self.changed("stopped", reply.response)
        first = self._replies[0] if self._replies else None
        begins = first is not None and not first.started
        cell = first.next() if first is not None else None
        if first is None or cell is None:
            self._sound.play(tick, _SILENCE)
            if self._picture is not None and (first is None or begins):
                self._picture.rest(tick)
            elif self._picture is not None:
                self._picture.hold(tick)
            return
        if begins:
            self.changed("started", first.response)
        self._hand_over(tick, cell.sound[:_HALF], first)
        self._second = cell.sound[_HALF:], first
        if self._picture is not None:
            if cell.packet is not None:
                self._picture.show(tick, cell.packet)
            else:
                self._picture.rest(tick)
        self._measure()

    def _play_second(self, tick: int) -> None:
        if self._second is None:
            self._sound.play(tick, _SILENCE)
        else:
            self._hand_over(tick, *self._second)
            self._second = None

    def _hand_over(self, tick: int, sound: bytes, reply: Reply) -> None:
        self._sound.play(tick, sound)
        reply.heard += len(sound)

    def _measure(self) -> None:
        if sum(reply.seconds for reply in self._replies) > BUFFER_S:
            self._room.clear()
        else:
            self._room.set()
