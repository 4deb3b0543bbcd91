"""The audio formats of the realtime API: PCM at 24 kHz, and G.711 at 8 kHz.

G.711: ITU-T G.711 (11/1988); 8-bit companded samples, µ-law (PCMU) and A-law (PCMA, RFC 3551).
"""

from __future__ import annotations

from typing import Literal

import av
import numpy as np
from av.audio.resampler import AudioResampler
from numpy.typing import NDArray

from e3rg.media.types import Pcm

AudioFormat = Literal["audio/pcm", "audio/pcmu", "audio/pcma"]

RATES: dict[AudioFormat, int] = {"audio/pcm": 24_000, "audio/pcmu": 8_000, "audio/pcma": 8_000}
"""Hz of each format."""


def _mulaw() -> NDArray[np.int16]:
    code = ~np.arange(256) & 0xFF
    magnitude = (((code & 0x0F) << 3) + 0x84 << ((code >> 4) & 7)) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _alaw() -> NDArray[np.int16]:
    code = np.arange(256) ^ 0x55
    exponent = (code >> 4) & 7
    step = (code & 0x0F) << 4
    magnitude = np.where(exponent == 0, step + 8, (step + 0x108) << np.maximum(exponent - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


def _inverse(table: NDArray[np.int16]) -> NDArray[np.uint8]:
    """For each 16-bit sample the nearest code."""
    order = np.argsort(table, kind="stable")
    levels = table[order].astype(np.int32)
    edges = (levels[1:] + levels[:-1] + 1) // 2
    samples = np.arange(-32_768, 32_768)
    return order[np.searchsorted(edges, samples, side="right")].astype(np.uint8)


_DECODE = {"audio/pcmu": _mulaw(), "audio/pcma": _alaw()}
_ENCODE = {name: _inverse(table) for name, table in _DECODE.items()}


def decode(data: bytes, audio_format: AudioFormat) -> Pcm:
    """Bytes of a client as PCM16 at the format's rate; an odd last byte of PCM is left out."""
    if audio_format == "audio/pcm":
        return Pcm(data[: len(data) // 2 * 2], RATES[audio_format])
    codes = np.frombuffer(data, np.uint8)
    return Pcm(_DECODE[audio_format][codes].tobytes(), RATES[audio_format])


def encode(data: bytes, audio_format: AudioFormat) -> bytes:
    """PCM16 samples at the format's rate as bytes for a client."""
    if audio_format == "audio/pcm":
        return data
    samples = np.frombuffer(data, np.int16).astype(np.int32)
    return _ENCODE[audio_format][samples + 32_768].tobytes()


class Resampler:
    """Brings a stream of mono PCM16 to one rate; without clicks where chunks meet.

    Args:
        rate: Hz of what comes out.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._source = rate
        self._resampler: AudioResampler | None = None

    def feed(self, pcm: Pcm) -> bytes:
        """Samples at the rate; the last few come with the next call, or with ``flush``."""
        before = b""
        if pcm.sample_rate != self._source:
            before = self.flush()
            self._source = pcm.sample_rate
        if self._source == self._rate or not pcm.data:
            return before + pcm.data
        if self._resampler is None:
            self._resampler = AudioResampler("s16", "mono", self._rate)
        frame = av.AudioFrame.from_ndarray(
            np.frombuffer(pcm.data, np.int16).reshape(1, -1), "s16", "mono"
        )
        frame.sample_rate = self._source
        return before + self._drain(frame)

    def flush(self) -> bytes:
        """What is left in the filter; then a new stream begins."""
        if self._resampler is None:
            return b""
        rest = self._drain(None)
        self._resampler = None
        return rest

    def _drain(self, frame: av.AudioFrame | None) -> bytes:
        assert self._resampler is not None
        return b"".join(each.to_ndarray().tobytes() for each in self._resampler.resample(frame))
