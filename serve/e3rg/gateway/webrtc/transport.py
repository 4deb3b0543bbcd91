"""A realtime session's way to a WebRTC peer: events over a data channel, media over tracks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from aiortc import RTCDataChannel
from aiortc.exceptions import InvalidStateError

from e3rg.errors import E3RGError
from e3rg.gateway.realtime.events import Event, error_event, event
from e3rg.gateway.realtime.formats import AudioFormat
from e3rg.gateway.webrtc.playout import Change, Playout
from e3rg.turn.events import AudioChunk, VideoFrames

_MANY, _TOO_MANY = 1_000_000, 4_000_000  # bytes of events that wait to be sent
_SEND_S = 20.0


class WebRtcTransport:
    """See gateway/realtime/transport.py.

    Args:
        channel: the open data channel ``oai-events``.
        playout: plays the media.
        ended: called once when the connection is to end, with the reason.
        listener: called with the listener's identity when the session says who it is.
    """

    def __init__(
        self,
        channel: RTCDataChannel,
        playout: Playout,
        ended: Callable[[str], None],
        listener: Callable[[str | None], None],
    ) -> None:
        self._channel = channel
        self._ended = ended
        self._listener = listener
        self._closed = False
        self._drained = asyncio.Event()
        channel.bufferedAmountLowThreshold = _MANY // 2
        channel.on("bufferedamountlow", self._drained.set)
        self._playout = playout
        playout.changed = self._changed

    async def send(self, event: Event) -> None:
        """Send a server event; waits for a peer that is slow, ends with one that takes nothing."""
        kind = event["type"]
        if kind in {"session.created", "session.updated"}:
            self._listener(event["session"].get("e3rg", {}).get("identity"))
        elif kind == "response.e3rg.degraded" and event["given"] == "audio":
            self._playout.without_pictures()
        self._post(event)
        if self._channel.bufferedAmount > _MANY and not self._closed:
            self._drained.clear()
            try:
                async with asyncio.timeout(_SEND_S):
                    await self._drained.wait()
            except TimeoutError:
                await self.close(1008, "the peer takes no events")

    async def begin(
        self, response: str, item: str, *, video: bool, audio_format: AudioFormat
    ) -> None:
        """What follows belongs to this response."""
        if not self._closed:
            self._playout.begin(response, video=video)

    async def audio(self, chunk: AudioChunk) -> None:
        """One spoken piece."""
        if not self._closed:
            await self._playout.speak(chunk)

    async def video(self, frames: VideoFrames) -> None:
        """Frames with their sound."""
        if not self._closed:
            await self._playout.show(frames)

    async def finish(self) -> None:
        """The response has no more media."""
        self._playout.finish()

    def clear(self) -> None:
        """Silence from the next 20 ms on."""
        self._playout.clear()

    @property
    def heard_s(self) -> float:
        """Seconds of the newest response's sound that were handed to the network."""
        return self._playout.heard_s

    async def close(self, code: int, reason: str) -> None:
        """End the connection; a data channel has no close code, so only the reason is kept."""
        if not self._closed:
            self._closed = True
            self._drained.set()
            self._playout.clear()
            self._ended(reason)

    def _changed(self, change: Change, response: str) -> None:
        self._post(event(f"output_audio_buffer.{change}", response_id=response))

    def _post(self, event: Event) -> None:
        if self._closed or self._channel.readyState != "open":
            return
        if self._channel.bufferedAmount > _TOO_MANY:
            self._closed = True
            self._ended("the peer takes no events")
            return
        try:
            self._channel.send(json.dumps(event, ensure_ascii=False))
        except InvalidStateError:
            pass  # closed meanwhile
        except ValueError:
            message = f"{event['type']} is longer than the peer's max-message-size; use WebSocket"
            self._channel.send(json.dumps(error_event(E3RGError("event_too_large", message))))
