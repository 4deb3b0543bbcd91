"""The speaker's sound since the last commit, and where speech is in it."""

from __future__ import annotations

from dataclasses import dataclass

from e3rg.errors import E3RGError
from e3rg.gateway.realtime.config import ServerVad
from e3rg.gateway.realtime.formats import Resampler
from e3rg.media.types import SPEECH_INPUT_RATE, Pcm
from e3rg.vad.endpointing import Endpointer, SpeechStarted
from e3rg.vad.silero import SileroVad, VadStream

_MIN_COMMIT_S = 0.1
_KEPT_S = 30.0
"""Sound kept while nobody speaks, for a client that commits what the VAD did not hear."""
_PER_MS = SPEECH_INPUT_RATE // 1000


@dataclass(frozen=True, slots=True)
class Started:
    """Speech began.

    Attributes:
        at_ms: since the session's first sample, prefix padding included.
    """

    at_ms: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """Speech ended, and this was said.

    Attributes:
        at_ms: since the session's first sample.
        audio: at 16 kHz, from the prefix padding on.
    """

    at_ms: int
    audio: Pcm


class SpeechInput:
    """A bounded buffer of sound at 16 kHz.

    Args:
        vad: the net that hears speech.
        max_s: seconds that it holds at most.
    """

    def __init__(self, vad: SileroVad, max_s: float) -> None:
        self._vad = vad
        self._max = int(max_s * SPEECH_INPUT_RATE)
        self._detection: ServerVad | None = None
        self._resampler = Resampler(SPEECH_INPUT_RATE)
        self._buffer = bytearray()
        self._start = 0  # the buffer's first sample, counted over the whole session
        self._listen()

    def _listen(self) -> None:
        self._stream = VadStream(self._vad)
        self._endpointer = Endpointer()
        self._listening_since = self._end
        if self._detection is not None:
            self._endpointer.configure(
                self._detection.threshold, self._detection.silence_duration_ms
            )

    @property
    def _end(self) -> int:
        return self._start + len(self._buffer) // 2

    @property
    def end_ms(self) -> int:
        """Milliseconds of sound since the session's first sample."""
        return self._end // _PER_MS

    @property
    def speaking(self) -> bool:
        """Whether speech goes on."""
        return self._endpointer.speaking

    def configure(self, detection: ServerVad | None) -> None:
        """Turn detection on, off, or set it differently; the sound so far stays."""
        before, self._detection = self._detection, detection
        if before is None or detection is None:
            self._listen()
        else:
            self._endpointer.configure(detection.threshold, detection.silence_duration_ms)

    def feed(self, pcm: Pcm) -> list[Started | Stopped]:
        """Take sound, and listen to it: some milliseconds of work for each second.

        Raises:
            E3RGError: ``input_audio_buffer_full`` without turn detection; ``model_missing``.
        """
        data = self._resampler.feed(pcm)
        if self._detection is None:
            if len(self._buffer) + len(data) > 2 * self._max:
                raise E3RGError(
                    "input_audio_buffer_full",
                    f"the input audio buffer holds {self._max // SPEECH_INPUT_RATE} s; commit or "
                    "clear it",
                    param="audio",
                )
            self._buffer += data
            return []
        found: list[Started | Stopped] = []
        step = 2 * SPEECH_INPUT_RATE
        for at in range(0, len(data), step):
            found += self._detect(data[at : at + step], self._detection)
        return found

    def _detect(self, data: bytes, detection: ServerVad) -> list[Started | Stopped]:
        self._buffer += data
        found: list[Started | Stopped] = []
        for change in self._endpointer.feed(self._stream.feed(data).tolist()):
            at = self._listening_since + change.sample
            if isinstance(change, SpeechStarted):
                self._drop_before(at - detection.prefix_padding_ms * _PER_MS)
                found.append(Started(self._start // _PER_MS))
            else:
                found.append(self._cut(at))
        if self.speaking and len(self._buffer) >= 2 * self._max:
            # What is said goes on, but nobody listens that long at once.
            self._endpointer.stop()
            found.append(self._cut(self._end))
        elif not self.speaking:
            self._drop_before(self._end - int(_KEPT_S * SPEECH_INPUT_RATE))
        return found

    def _drop_before(self, sample: int) -> None:
        count = max(sample - self._start, 0)
        del self._buffer[: 2 * count]
        self._start += count

    def _cut(self, sample: int) -> Stopped:
        size = 2 * (sample - self._start)
        audio = Pcm(bytes(self._buffer[:size]), SPEECH_INPUT_RATE)
        self._drop_before(sample)
        return Stopped(sample // _PER_MS, audio)

    def commit(self) -> Pcm:
        """Take out all that is there; speech that goes on is cut here.

        Raises:
            E3RGError: ``input_audio_buffer_commit_empty``.
        """
        self._buffer += self._resampler.flush()
        seconds = len(self._buffer) / (2 * SPEECH_INPUT_RATE)
        if seconds < _MIN_COMMIT_S:
            raise E3RGError(
                "input_audio_buffer_commit_empty",
                f"the input audio buffer holds {1000 * seconds:.0f} ms of sound; append at least "
                f"{1000 * _MIN_COMMIT_S:.0f} ms before a commit",
            )
        audio = Pcm(bytes(self._buffer), SPEECH_INPUT_RATE)
        self.clear()
        return audio

    def clear(self) -> None:
        """Forget all that is there."""
        self._drop_before(self._end)
        self._listen()
