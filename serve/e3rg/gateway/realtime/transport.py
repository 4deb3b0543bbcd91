"""How a realtime session reaches its client; WebSocket and WebRTC each have one."""

from __future__ import annotations

from typing import Any, Protocol

from e3rg.gateway.realtime.formats import AudioFormat
from e3rg.turn.events import AudioChunk, VideoFrames


class Transport(Protocol):
    """The way to one client: events, and the sound and picture of one response at a time.

    Nothing here blocks the turn for longer than its own bounded buffer; a client that takes nothing
    for too long is closed. After ``close`` every method does nothing.
    """

    async def send(self, event: dict[str, Any]) -> None:
        """Send a server event (https://platform.openai.com/docs/api-reference/realtime)."""
        ...

    async def begin(
        self, response: str, item: str, *, video: bool, audio_format: AudioFormat
    ) -> None:
        """The media that follow belong to this response and its message item.

        Args:
            response: id of the response.
            item: id of the assistant's message.
            video: pictures will come; sound then comes with them (VideoFrames.audio), so that both
                share one clock, and ``audio`` only says what is spoken.
            audio_format: of sound that is sent as events; media tracks have their own.
        """
        ...

    async def audio(self, chunk: AudioChunk) -> None:
        """One spoken piece, in order."""
        ...

    async def video(self, frames: VideoFrames) -> None:
        """Consecutive frames with their sound, in order."""
        ...

    async def finish(self) -> None:
        """The response has no more media; what is buffered is still played."""
        ...

    def clear(self) -> None:
        """Play nothing more of this response: at once, whatever is buffered or comes yet."""
        ...

    @property
    def heard_s(self) -> float:
        """Seconds of the newest response's sound that the person has heard, or can have.

        It keeps its value after ``clear``.
        """
        ...

    async def close(self, code: int, reason: str) -> None:
        """End the connection (RFC 6455 section 7.4 close codes)."""
        ...
