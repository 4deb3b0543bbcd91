"""Media values that pass between stages. Bytes cross encoded: PCM16 and H.264, never raw frames."""

from __future__ import annotations

from dataclasses import dataclass

SPEECH_INPUT_RATE = 16_000
"""Hz; every recognised utterance is mono at this rate."""


@dataclass(frozen=True, slots=True)
class Pcm:
    """Mono sound.

    Attributes:
        data: signed 16-bit little-endian samples.
        sample_rate: Hz.
    """

    data: bytes
    sample_rate: int

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.data) // 2

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.samples / self.sample_rate


@dataclass(frozen=True, slots=True)
class Clip:
    """A decoded upload.

    Attributes:
        audio: mono sound at SPEECH_INPUT_RATE, or None if the file has no sound.
        frames: JPEG stills spread evenly over a video, oldest first; empty for audio.
        seconds: duration of the file.
    """

    audio: Pcm | None
    frames: tuple[bytes, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class VideoPacket:
    """One H.264 access unit in Annex B form; key frames carry SPS and PPS in band."""

    data: bytes
    keyframe: bool


@dataclass(frozen=True, slots=True)
class Still:
    """A JPEG picture of the listener, for when video cannot be had."""

    jpeg: bytes


@dataclass(frozen=True, slots=True)
class Phoneme:
    """A speech sound with its time in seconds from the start of its audio.

    Attributes:
        symbol: IPA symbol, without stress or length marks; ``""`` is silence.
    """

    symbol: str
    start: float
    end: float
