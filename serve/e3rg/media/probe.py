"""Skew between sound and picture, measured in a finished file by decoding it."""

from __future__ import annotations

import io
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av


@dataclass(frozen=True, slots=True)
class SkewReport:
    """What a player will show.

    Attributes:
        audio_s, video_s: duration of each track, 0 where there is none.
        frames: pictures decoded.
        samples: sound samples decoded and to be heard, at the file's own rate.
        offset_ms: start of the sound minus start of the picture.
        skew_ms: largest |time of frame n − time at which sample n·rate/fps is heard|.
        drift_ms: that difference (signed) at the last frame minus at the first.
        tail_ms: end of the sound minus end of the picture.
        gap_ms: largest hole or overlap between consecutive sound frames.
    """

    audio_s: float
    video_s: float
    frames: int
    samples: int
    offset_ms: float
    skew_ms: float
    drift_ms: float
    tail_ms: float
    gap_ms: float


def measure_skew(source: Path | bytes, fps: int = 25) -> SkewReport:
    """Decode a file and compare its two clocks.

    Args:
        source: an MP4 (also init segment and fragments joined), as a path or its bytes.
        fps: frames a second that the picture is meant to have.

    Raises:
        av.error.FFmpegError: if it cannot be read.
    """
    video: list[Fraction] = []
    ends: dict[str, Fraction] = {}
    sound: list[tuple[Fraction, int]] = []  # presentation time and samples of a decoded frame
    rate = 0
    with av.open(source if isinstance(source, Path) else io.BytesIO(source), mode="r") as container:
        for packet in container.demux():
            stream = packet.stream
            if stream.type not in ("audio", "video"):
                continue
            if packet.pts is not None and packet.duration and stream.time_base:
                end = (packet.pts + packet.duration) * stream.time_base
                ends[stream.type] = max(end, ends.get(stream.type, end))
            for frame in packet.decode():
                if not isinstance(frame, av.VideoFrame | av.AudioFrame):
                    continue
                time = Fraction(frame.pts or 0) * (frame.time_base or 0)
                if isinstance(frame, av.VideoFrame):
                    video.append(time)
                else:
                    rate = frame.sample_rate
                    # What lies before zero is encoder delay, which players skip.
                    early = min(frame.samples, max(0, round(-time * rate)))
                    if frame.samples > early:
                        sound.append((time + Fraction(early, rate), frame.samples - early))
    if sound and "audio" in ends:  # the last frame is cut where its packet's duration ends
        start, count = sound[-1]
        sound[-1] = (start, min(count, max(0, round((ends["audio"] - start) * rate))))
    return _report(sorted(video), sound, rate, ends, fps)


def _report(
    video: list[Fraction],
    sound: list[tuple[Fraction, int]],
    rate: int,
    ends: dict[str, Fraction],
    fps: int,
) -> SkewReport:
    first_index: list[int] = []  # index of each sound frame's first sample
    total = 0
    gap = Fraction(0)
    for number, (time, count) in enumerate(sound):
        if number:
            before, length = sound[number - 1]
            gap = max(gap, abs(time - before - Fraction(length, rate)))
        first_index.append(total)
        total += count
    differences = []
    for n, shown in enumerate(video):
        sample = Fraction(n * rate, fps)
        if not sound or sample >= total:
            break
        frame = bisect_right(first_index, sample) - 1
        heard = sound[frame][0] + (sample - first_index[frame]) / rate
        differences.append(shown - heard)
    audio_end = sound[-1][0] + Fraction(sound[-1][1], rate) if sound else Fraction(0)
    video_end = max(ends.get("video", Fraction(0)), video[-1]) if video else Fraction(0)
    both = bool(sound and video)

    def ms(value: Fraction) -> float:
        return round(float(value * 1000), 3)

    return SkewReport(
        audio_s=float(audio_end - sound[0][0]) if sound else 0.0,
        video_s=float(video_end - video[0]) if video else 0.0,
        frames=len(video),
        samples=total,
        offset_ms=ms(sound[0][0] - video[0]) if both else 0.0,
        skew_ms=ms(max(map(abs, differences), default=Fraction(0))),
        drift_ms=ms(differences[-1] - differences[0]) if differences else 0.0,
        tail_ms=ms(audio_end - video_end) if both else 0.0,
        gap_ms=ms(gap),
    )
