"""Where speech begins and ends in a stream, from the probability of speech in each window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from e3rg.media.types import SPEECH_INPUT_RATE
from e3rg.vad.silero import WINDOW

_HYSTERESIS = 0.15
"""Silero's own: silence is what lies so far under the threshold of speech."""
_ONSET = 2
"""Windows in a row that must hold speech, so that a click is none."""


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Somebody speaks since this sample of the stream."""

    sample: int


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """Nobody speaks any more: the silence that ends speech is over at this sample."""

    sample: int


class Endpointer:
    """Finds the beginnings and ends of speech.

    Attributes:
        threshold: probability from which a window holds speech.
        silence: windows of silence that end it.
        speaking: whether somebody speaks.
    """

    def __init__(self, threshold: float = 0.5, silence_ms: int = 500) -> None:
        self.speaking = False
        self._windows = 0
        self._onset = 0
        self._quiet = 0
        self.configure(threshold, silence_ms)

    def configure(self, threshold: float, silence_ms: int) -> None:
        """Change the settings; a stream goes on."""
        self.threshold = threshold
        self.silence = max(1, -(-silence_ms * SPEECH_INPUT_RATE // (1000 * WINDOW)))

    def feed(self, probabilities: Iterable[float]) -> list[SpeechStarted | SpeechStopped]:
        """Take the next windows."""
        found: list[SpeechStarted | SpeechStopped] = []
        for probability in probabilities:
            self._windows += 1
            if self.speaking:
                if probability >= self.threshold:
                    self._quiet = 0
                elif probability < max(self.threshold - _HYSTERESIS, 0.01) or self._quiet:
                    self._quiet += 1
                if self._quiet >= self.silence:
                    self.stop()
                    found.append(SpeechStopped(self._windows * WINDOW))
            else:
                self._onset = self._onset + 1 if probability >= self.threshold else 0
                if self._onset >= _ONSET:
                    self.speaking, self._quiet = True, 0
                    found.append(SpeechStarted((self._windows - _ONSET) * WINDOW))
        return found

    def stop(self) -> None:
        """Nobody speaks, as far as this goes: the sound was cut here."""
        self.speaking = False
        self._onset = self._quiet = 0
