"""AAC-LC encoding in pieces, with exact durations."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext

from e3rg.media.boxes import Sample


class AacEncoder:
    """Encodes mono PCM16 as one AAC-LC stream, fed in pieces of any length.

    The first ``priming`` samples of the decoded stream are the encoder's delay and not to be
    heard. After ``encode`` the stream lacks what does not fill a frame of 1,024 samples, the frame
    that the encoder looks ahead to choose its windows, and the frame whose second half overlaps
    with that one: at most 128 ms at 24 kHz, 64 ms at 48 kHz.

    Args:
        sample_rate: Hz; one of AAC's (24,000, 44,100, 48,000, ...).
        bit_rate: bits a second.

    Attributes:
        config: the AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1).
        priming: samples.
    """

    priming = 1024  # of FFmpeg's own encoder; the first packet's time proves it

    def __init__(self, sample_rate: int, bit_rate: int = 64_000) -> None:
        encoder = AudioCodecContext.create("aac", "w")
        encoder.sample_rate = sample_rate
        encoder.layout = "mono"
        encoder.format = "fltp"
        encoder.bit_rate = bit_rate
        encoder.time_base = Fraction(1, sample_rate)
        encoder.thread_count = 1
        encoder.open()
        self._encoder = encoder
        self.sample_rate = sample_rate
        self.config = bytes(encoder.extradata or b"")
        self.fed = 0
        self._emitted = 0

    def encode(self, pcm: bytes) -> list[Sample]:
        """Encode more sound; returns the frames that are complete."""
        if not pcm:
            return []
        samples = np.frombuffer(pcm, "<i2").reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        frame.sample_rate = self.sample_rate
        frame.pts, frame.time_base = self.fed, Fraction(1, self.sample_rate)
        self.fed += samples.shape[1]
        return self._take(frame)

    def finish(self) -> list[Sample]:
        """End the stream; the last frame's duration is cut to the sound's end."""
        if not self.fed:
            return []
        rest = self._take(None)
        over = self._emitted - self.priming - self.fed
        while rest and over >= rest[-1].duration:
            over -= rest.pop().duration
        if rest and over:
            rest[-1] = Sample(rest[-1].data, rest[-1].duration - over, sync=True)
        return rest

    def _take(self, frame: av.AudioFrame | None) -> list[Sample]:
        taken = []
        for packet in self._encoder.encode(frame):
            if packet.pts != self._emitted - self.priming:
                raise RuntimeError(f"AAC encoder delay is not {self.priming} samples")
            self._emitted += 1024
            taken.append(Sample(bytes(packet), 1024, sync=True))
        return taken
