"""A transcript in the forms that clients ask for: JSON, plain text, SubRip and WebVTT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from e3rg.stages.understanding.engine import HeardSegment

TextFormat = Literal["text", "srt", "vtt"]
Granularity = Literal["word", "segment"]


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard in one recording.

    Attributes:
        segments: in order.
        language: ISO 639-1 code.
        seconds: duration of the recording.
    """

    segments: Sequence[HeardSegment]
    language: str
    seconds: float

    @property
    def text(self) -> str:
        """The whole transcript; empty for silence."""
        return " ".join(segment.text for segment in self.segments)

    def as_text(self, text_format: TextFormat) -> str:
        """As plain text, SubRip or WebVTT (https://www.w3.org/TR/webvtt1/)."""
        if text_format == "text":
            return f"{self.text}\n"
        cues = [
            f"{number}\n{_cue(segment, ',')}\n\n"
            if text_format == "srt"
            else f"{_cue(segment, '.')}\n\n"
            for number, segment in enumerate(self.segments, 1)
        ]
        return ("WEBVTT\n\n" if text_format == "vtt" else "") + "".join(cues)

    def usage(self) -> dict[str, Any]:
        """By the length of the recording."""
        return {"type": "duration", "seconds": round(self.seconds, 3)}

    def as_json(self) -> dict[str, Any]:
        """openai.types.audio.Transcription."""
        return {"text": self.text, "usage": self.usage()}

    def as_verbose_json(self, granularities: Sequence[Granularity]) -> dict[str, Any]:
        """openai.types.audio.TranscriptionVerbose; the language is its code."""
        verbose: dict[str, Any] = {
            "task": "transcribe",
            "language": self.language,
            "duration": round(self.seconds, 3),
            "text": self.text,
        }
        if "segment" in granularities:
            verbose["segments"] = [_segment(*each) for each in enumerate(self.segments)]
        if "word" in granularities:
            verbose["words"] = [
                {"word": word.text, "start": word.start, "end": word.end}
                for segment in self.segments
                for word in segment.words
            ]
        return {**verbose, "usage": self.usage()}


def _segment(number: int, segment: HeardSegment) -> dict[str, Any]:
    return {
        "id": number,
        "seek": round(segment.start * 100),  # in Whisper's frames of 10 ms
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": segment.temperature,
        "avg_logprob": segment.log_probability,
        "compression_ratio": segment.compression,
        "no_speech_prob": segment.no_speech,
    }


def _cue(segment: HeardSegment, point: str) -> str:
    # A cue ends after it begins, and holds no line that could be another cue's.
    end = max(segment.end, segment.start + 0.001)
    text = " ".join(segment.text.split()).replace("-->", "->")
    if point == ".":
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"{_clock(segment.start, point)} --> {_clock(end, point)}\n{text}"


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
