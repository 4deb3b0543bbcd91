"""Replies' sound as clients ask for it: a stream of one format, in pieces that are sent at once.

The encoding itself is media/encode.py; here are the choices that OpenAI documents for its audio
(https://platform.openai.com/docs/guides/text-to-speech#supported-output-formats).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import soxr

from e3rg.media.encode import MIME_TYPES, AudioStreamEncoder, encode_audio
from e3rg.media.types import Pcm

SoundFormat = Literal["wav", "mp3", "flac", "opus", "aac", "pcm"]
"""OpenAI's ``response_format``; ``opus`` is in Ogg."""

RAW_RATE = 24_000
"""Hz of ``pcm``, which has no header to say it: signed 16-bit little-endian, mono."""


class SoundEncoder:
    """Encodes mono sound piece by piece; the outputs, joined, are one playable file.

    A file cut anywhere plays up to the cut. WAV carries the largest length there is, since the end
    is not known; ``encode_sound`` writes the exact one.

    Example::

        encoder = SoundEncoder("opus", 24_000)
        for chunk in chunks:
            send(encoder.write(chunk.audio))
        send(encoder.finish())

    Args:
        sound_format: see SoundFormat.
        sample_rate: Hz of what is written.

    Raises:
        E3RGError: ``unknown_audio_format`` (param ``format``).
    """

    def __init__(self, sound_format: SoundFormat, sample_rate: int) -> None:
        self.sample_rate = sample_rate
        self._encoder = AudioStreamEncoder(sound_format, sample_rate)
        self.mime_type = MIME_TYPES[sound_format]
        self._resampler: soxr.ResampleStream | None = None
        if sound_format == "pcm" and sample_rate != RAW_RATE:
            self._resampler = soxr.ResampleStream(sample_rate, RAW_RATE, 1, dtype="int16")

    def write(self, pcm: Pcm) -> bytes:
        """Add sound; returns what is ready to send, maybe nothing.

        Raises:
            ValueError: sound of another rate.
            RuntimeError: after ``finish``.
        """
        if pcm.sample_rate != self.sample_rate:
            raise ValueError(f"sound at {pcm.sample_rate} Hz; expected {self.sample_rate} Hz")
        return self._encoder.write(self._resampled(pcm.data, last=False))

    def finish(self) -> bytes:
        """End the stream; returns its last bytes, and nothing at a second call."""
        rest = self._resampled(b"", last=True)
        self._resampler = None
        return (self._encoder.write(rest) if rest else b"") + self._encoder.finish()

    def _resampled(self, data: bytes, *, last: bool) -> bytes:
        if self._resampler is None:
            return data
        samples = np.frombuffer(data, "<i2")
        resampled: bytes = self._resampler.resample_chunk(samples, last=last).tobytes()
        return resampled


def encode_sound(pcm: Pcm, sound_format: SoundFormat) -> bytes:
    """Encode finished sound as one file; a WAV file then has its exact length.

    Raises:
        E3RGError: ``unknown_audio_format`` (param ``format``).
    """
    if sound_format == "wav":
        return encode_audio(pcm, sound_format)
    encoder = SoundEncoder(sound_format, pcm.sample_rate)
    return encoder.write(pcm) + encoder.finish()
