"""A realtime session's transport over a WebSocket: every event is one text message."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from e3rg.gateway.encoding import encoded
from e3rg.gateway.realtime.events import event
from e3rg.gateway.realtime.formats import RATES, AudioFormat, Resampler, encode
from e3rg.media.mux import FragmentedMp4Muxer
from e3rg.media.types import Pcm
from e3rg.stages.avatar.engine import FPS
from e3rg.turn.events import AudioChunk, VideoFrames

log = logging.getLogger(__name__)

_MAX_QUEUED = 4_000_000
"""Characters that wait for a client; about a minute of sound and picture."""
_PATIENCE_S = 15.0
"""A client that takes nothing for so long is closed."""
_GOODBYE_S = 3.0
_DELTA_S = 0.2
"""Sound goes out in pieces of so many seconds, so that little is on its way when it is stopped."""


class WebSocketTransport:
    """Sends through a bounded queue, from which the media of a stopped response are dropped.

    Args:
        websocket: accepted already.
    """

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._queue: deque[tuple[str, bool]] = deque()
        self._queued = 0
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._closing: tuple[int, str] | None = None
        self._media: _Media | None = None
        self._heard = _Playback()

    async def run(self) -> None:
        """Write until the connection is closed."""
        while self._queue or self._closing is None:
            if not self._queue:
                self._more.clear()
                await self._more.wait()
                continue
            text, _ = self._queue.popleft()
            self._queued -= len(text)
            self._room.set()
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await self._websocket.send_text(text)
            except TimeoutError:
                self._give_up()
            except (WebSocketDisconnect, OSError, RuntimeError):
                self._shut(1006, "the client is gone")
                self._drop(everything=True)
        code, reason = self._closing
        if code != 1006:
            try:
                async with asyncio.timeout(_GOODBYE_S):
                    await self._websocket.close(code, reason)
            except (TimeoutError, OSError, RuntimeError, WebSocketDisconnect):
                log.info("a client was gone before the close")

    async def send(self, event: dict[str, Any]) -> None:
        """Queue an event."""
        await self._put(json.dumps(event, ensure_ascii=False, separators=(",", ":")))

    async def begin(
        self, response: str, item: str, *, video: bool, audio_format: AudioFormat
    ) -> None:
        """Media of another response follow."""
        self._media = _Media(response, item, audio_format)
        self._heard = _Playback()

    async def audio(self, chunk: AudioChunk) -> None:
        """Send sound as ``response.output_audio.delta``, also beside pictures."""
        media = self._media
        if media is None:
            return
        step = 2 * int(_DELTA_S * chunk.audio.sample_rate)
        for at in range(0, len(chunk.audio.data), step):
            part = Pcm(chunk.audio.data[at : at + step], chunk.audio.sample_rate)
            await self._put_media(media, media.sound(part))
            if self._media is not media:
                return
            self._heard.add(part.seconds)

    async def video(self, frames: VideoFrames) -> None:
        """Send pictures and their sound as ``response.e3rg.video.delta``."""
        media = self._media
        if media is not None:
            await self._put_media(media, media.pictures(frames))

    async def finish(self) -> None:
        """Send what the encoders still hold."""
        media = self._media
        if media is None:
            return
        for rest in media.finish():
            await self._put_media(media, rest)

    def clear(self) -> None:
        """Drop what is queued of the response's media, and whatever comes of it yet."""
        self._heard.stop()
        self._media = None
        self._drop(everything=False)

    @property
    def heard_s(self) -> float:
        """An estimate: a client plays what it has as soon as it has it."""
        return self._heard.seconds

    async def close(self, code: int, reason: str) -> None:
        """Close behind what is queued."""
        self._shut(code, reason)

    async def _put_media(self, media: _Media, event: dict[str, Any] | None) -> None:
        if event is not None and self._media is media:
            await self._put(json.dumps(event, separators=(",", ":")), media)

    async def _put(self, text: str, media: _Media | None = None) -> None:
        while self._queued >= _MAX_QUEUED and self._closing is None:
            self._room.clear()
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await self._room.wait()
            except TimeoutError:
                self._give_up()
        if self._closing is None and (media is None or self._media is media):
            self._queue.append((text, media is not None))
            self._queued += len(text)
            self._more.set()

    def _shut(self, code: int, reason: str) -> None:
        if self._closing is None:
            self._closing = (code, close_reason(reason))
        self._more.set()
        self._room.set()

    def _give_up(self) -> None:
        self._drop(everything=True)
        self._shut(1013, "the client reads too slowly; connect again")

    def _drop(self, *, everything: bool) -> None:
        kept = [entry for entry in self._queue if not everything and not entry[1]]
        self._queue.clear()
        self._queue.extend(kept)
        self._queued = sum(len(text) for text, _ in kept)
        self._room.set()


def close_reason(text: str) -> str:
    """As much of a text as a close frame holds: 123 bytes (RFC 6455 section 5.5)."""
    return text.encode()[:123].decode(errors="ignore")


class _Playback:
    """How much of what was sent a client has played, if it began at once and never paused."""

    def __init__(self) -> None:
        self._sent = 0.0
        self._ends = 0.0
        self._stopped: float | None = None

    def add(self, seconds: float) -> None:
        now = time.monotonic()
        self._ends = max(self._ends, now) + seconds
        self._sent += seconds

    def stop(self) -> None:
        self._stopped = self.seconds

    @property
    def seconds(self) -> float:
        if self._stopped is not None:
            return self._stopped
        return max(self._sent - max(self._ends - time.monotonic(), 0.0), 0.0)


class _Media:
    """Encodes the sound and the pictures of one response."""

    def __init__(self, response: str, item: str, audio_format: AudioFormat) -> None:
        self._about = {"response_id": response, "item_id": item, "output_index": 0}
        self._format = audio_format
        self._resampler = Resampler(RATES[audio_format])
        self._muxer: FragmentedMp4Muxer | None = None

    def sound(self, pcm: Pcm) -> dict[str, Any] | None:
        return self._delta(self._resampler.feed(pcm))

    def pictures(self, frames: VideoFrames) -> dict[str, Any] | None:
        self._muxer = self._muxer or FragmentedMp4Muxer(sample_rate=frames.audio.sample_rate)
        data = self._muxer.write(frames.packets, frames.audio)
        return self._segment(data, frames.first_frame / FPS, len(frames.packets))

    def finish(self) -> list[dict[str, Any] | None]:
        rest = [self._delta(self._resampler.flush())]
        if self._muxer is not None:
            rest.append(self._segment(self._muxer.finish(), None, 0))
            rest.append(event("response.e3rg.video.done", **self._about))
        return rest

    def _delta(self, data: bytes) -> dict[str, Any] | None:
        if not data:
            return None
        delta = encoded(encode(data, self._format))
        return event("response.output_audio.delta", content_index=0, delta=delta, **self._about)

    def _segment(self, data: bytes, start: float | None, frames: int) -> dict[str, Any] | None:
        if not data or self._muxer is None:
            return None
        return event(
            "response.e3rg.video.delta",
            delta=encoded(data),
            mime=self._muxer.mime_type,
            start=start,
            frames=frames,
            **self._about,
        )
