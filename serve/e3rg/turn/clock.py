"""The turn's one clock: audio samples. Frame n of a turn shows sample n * rate / fps."""

from __future__ import annotations

from dataclasses import dataclass

from e3rg.media.types import Pcm


@dataclass(slots=True)
class MediaClock:
    """Places sentences on the turn's time line, each a whole number of frames long.

    Sound is padded with silence up to the next frame, never cut, so that a segment's video is
    exactly as long as its audio and nothing can drift.

    Args:
        sample_rate: Hz; must be a multiple of ``fps``.
        fps: video frames per second.
    """

    sample_rate: int
    fps: int
    samples: int = 0

    def __post_init__(self) -> None:
        if self.sample_rate % self.fps:
            raise ValueError(f"{self.sample_rate} Hz is not a multiple of {self.fps} fps")

    @property
    def samples_per_frame(self) -> int:
        """Samples that one frame lasts."""
        return self.sample_rate // self.fps

    @property
    def frames(self) -> int:
        """Frames placed so far."""
        return self.samples // self.samples_per_frame

    def place(self, audio: Pcm) -> tuple[Pcm, int]:
        """Append a sentence's sound; returns it padded, and its first sample in the turn."""
        if audio.sample_rate != self.sample_rate:
            raise ValueError(f"audio is {audio.sample_rate} Hz, the clock {self.sample_rate} Hz")
        missing = -audio.samples % self.samples_per_frame
        first = self.samples
        self.samples += audio.samples + missing
        return Pcm(audio.data + bytes(2 * missing), audio.sample_rate), first

    def slice(self, audio: Pcm, first_frame: int, frames: int) -> Pcm:
        """The sound of ``frames`` frames of a padded sentence, counted from its own start."""
        width = 2 * self.samples_per_frame
        return Pcm(
            audio.data[first_frame * width : (first_frame + frames) * width], audio.sample_rate
        )
