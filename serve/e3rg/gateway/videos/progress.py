"""How far a video is: by the turn's milestones, then by its frames."""

from __future__ import annotations

from e3rg.stages.avatar.engine import FPS
from e3rg.turn.events import EmotionRecognized, MemoryUsed, TextDelta, TurnEvent, VideoFrames

_CHARS_PER_S = 15
"""Of English speech at the usual speed."""
_STARTED, _UNDERSTOOD, _REMEMBERED, _WRITING, _FILMED = 1, 5, 8, 10, 97


class Progress:
    """Percent of a job that is done; it never falls, and is 100 only when the job is finished.

    Args:
        seconds: the length asked for; a shorter reply ends early, since it is not known before its
            last word.
    """

    def __init__(self, seconds: float) -> None:
        self._expected = seconds * FPS
        self._chars = 0
        self._frames = 0
        self.percent = _STARTED

    def note(self, event: TurnEvent) -> None:
        """Take notice of what the turn did."""
        match event:
            case EmotionRecognized():
                self._rise(_UNDERSTOOD)
            case MemoryUsed():
                self._rise(_REMEMBERED)
            case TextDelta(text):
                self._chars += len(text)
                self._rise(_WRITING)
            case VideoFrames():
                self._frames += len(event.packets)
                expected = max(self._expected, self._chars / _CHARS_PER_S * FPS)
                share = min(self._frames / expected, 1.0)
                self._rise(_WRITING + round(share * (_FILMED - _WRITING)))
            case _:
                pass

    def _rise(self, percent: int) -> None:
        self.percent = max(self.percent, percent)
