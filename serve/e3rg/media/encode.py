"""Sound in the formats that clients ask for, whole or as a stream."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Literal, get_args

import av
import numpy as np
import soxr
from av.audio.stream import AudioStream

from e3rg.errors import E3RGError
from e3rg.media.types import Pcm

AudioFormat = Literal["wav", "pcm", "mp3", "flac", "opus", "aac"]
"""The names are those of OpenAI's ``response_format``; ``pcm`` is raw PCM16, ``opus`` is in Ogg."""

MIME_TYPES: dict[AudioFormat, str] = {
    "wav": "audio/wav",
    "pcm": "audio/pcm",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "opus": "audio/ogg; codecs=opus",
    "aac": "audio/aac",
}

FLUSH_PACKETS = 0x200  # AVFMT_FLAG_FLUSH_PACKETS (avformat.h): hand packets on at once
_UNKNOWN_LENGTH = 0xFFFFFFFF
_BIT_RATES = {"mp3": 64_000, "opus": 32_000, "aac": 64_000}
_MUXERS = {
    "mp3": ("mp3", "libmp3lame", {"write_xing": "0", "id3v2_version": "0"}),
    "flac": ("flac", "flac", {}),
    # A page for each 100 ms of sound instead of FFmpeg's second, so that a stream flows.
    "opus": ("ogg", "libopus", {"page_duration": "100000"}),
    "aac": ("adts", "aac", {}),
}
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
_MPEG_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)


def encode_audio(pcm: Pcm, audio_format: AudioFormat) -> bytes:
    """Encode finished sound as one file.

    Raises:
        E3RGError: ``unknown_audio_format`` (param ``format``).
    """
    if audio_format == "wav":
        return wav_header(pcm.sample_rate, len(pcm.data)) + pcm.data
    encoder = AudioStreamEncoder(audio_format, pcm.sample_rate)
    return encoder.write(pcm.data) + encoder.finish()


def wav_header(sample_rate: int, data_bytes: int | None) -> bytes:
    """The 44 bytes before mono PCM16 in a WAV file (RIFF, WAVE_FORMAT_PCM).

    Args:
        sample_rate: Hz.
        data_bytes: length of what follows; None for a stream whose end is not known, which is
            written as the largest length.
    """
    size = _UNKNOWN_LENGTH if data_bytes is None else data_bytes
    riff = _UNKNOWN_LENGTH if data_bytes is None else 36 + data_bytes
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", riff, b"WAVE") + form + struct.pack("<4sI", b"data", size)


class AudioStreamEncoder:
    """Encodes mono PCM16 in pieces; the outputs, joined, are a playable file.

    Example::

        encoder = AudioStreamEncoder("mp3", 24_000)
        for segment in segments:
            send(encoder.write(segment.audio.data))
        send(encoder.finish())

    Args:
        audio_format: see AudioFormat.
        sample_rate: Hz of what is written; converted where the format does not know it.

    Raises:
        E3RGError: ``unknown_audio_format`` (param ``format``).
    """

    def __init__(self, audio_format: AudioFormat, sample_rate: int) -> None:
        if audio_format not in get_args(AudioFormat):
            known = ", ".join(get_args(AudioFormat))
            message = f"format: {audio_format!r} is not known: use one of {known}"
            raise E3RGError("unknown_audio_format", message, param="format")
        self._head = wav_header(sample_rate, None) if audio_format == "wav" else b""
        self._encoder: _Encoder | None = None
        if audio_format in _MUXERS:
            self._encoder = _Encoder(audio_format, sample_rate)
        self._finished = False

    def write(self, pcm: bytes) -> bytes:
        """Add sound; returns what is ready to send, maybe nothing.

        Raises:
            ValueError: an odd number of bytes.
            RuntimeError: after ``finish``.
        """
        if self._finished:
            raise RuntimeError("the encoder is finished")
        if len(pcm) % 2:
            raise ValueError("PCM16 with an odd number of bytes")
        if self._encoder is not None:
            return self._encoder.write(pcm)
        head, self._head = self._head, b""
        return head + pcm

    def finish(self) -> bytes:
        """End the stream; returns its last bytes."""
        if self._finished:
            return b""
        self._finished = True
        head, self._head = self._head, b""
        return head + (self._encoder.finish() if self._encoder is not None else b"")


class _Encoder:
    """FFmpeg's encoder and muxer, writing to memory."""

    def __init__(self, audio_format: str, sample_rate: int) -> None:
        muxer, codec, options = _MUXERS[audio_format]
        self._rate = sample_rate
        rates = {"opus": _OPUS_RATES, "flac": (sample_rate,)}.get(audio_format, _MPEG_RATES)
        rate = min((r for r in rates if r >= sample_rate), default=max(rates))
        self._resampler = None
        if rate != sample_rate:
            self._resampler = soxr.ResampleStream(sample_rate, rate, 1, dtype="int16")
        self._sink = _Sink()
        self._container = av.open(self._sink, "w", format=muxer, container_options=options)
        self._container.flags |= FLUSH_PACKETS
        stream = self._container.add_stream(codec, rate=rate)
        assert isinstance(stream, AudioStream)
        stream.layout = "mono"
        stream.codec_context.thread_count = 1
        if audio_format in _BIT_RATES:
            stream.bit_rate = _BIT_RATES[audio_format]
        self._stream = stream
        self._out_rate = rate
        self._fed = 0

    def write(self, pcm: bytes) -> bytes:
        samples = np.frombuffer(pcm, "<i2")
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(samples)
        self._feed(samples)
        return self._sink.take()

    def finish(self) -> bytes:
        if self._resampler is not None:
            self._feed(self._resampler.resample_chunk(np.zeros(0, np.int16), last=True))
        if self._fed == 0:  # no encoder likes to end what never began: a frame of silence
            self._feed(np.zeros(self._out_rate // 50, np.int16))
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._sink.take()

    def _feed(self, samples: np.ndarray) -> None:
        if not samples.size:
            return
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = self._out_rate
        frame.pts, frame.time_base = self._fed, Fraction(1, self._out_rate)
        self._fed += samples.size
        self._container.mux(self._stream.encode(frame))


class _Sink:
    """A file that can only be written to; FFmpeg sees no ``seek`` and so never goes back."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> int:
        self._data += data
        return len(data)

    def take(self) -> bytes:
        data, self._data = bytes(self._data), bytearray()
        return data
