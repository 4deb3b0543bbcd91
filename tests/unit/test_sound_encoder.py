"""Streams of sound in every format: decodable whole and cut, flowing, of the documented rate."""

from __future__ import annotations

import io
import wave
from typing import get_args

import av
import numpy as np
import pytest
import soxr
from media_samples import tone

from e3rg.errors import E3RGError
from e3rg.media.encode import AudioFormat
from e3rg.media.sound_encoder import RAW_RATE, SoundEncoder, SoundFormat, encode_sound
from e3rg.media.types import Pcm

FORMATS: tuple[SoundFormat, ...] = get_args(SoundFormat)


def pieces(pcm: Pcm, sound_format: SoundFormat, step: int = 4800) -> list[bytes]:
    encoder = SoundEncoder(sound_format, pcm.sample_rate)
    parts = [
        encoder.write(Pcm(pcm.data[at : at + step], pcm.sample_rate))
        for at in range(0, len(pcm.data), step)
    ]
    return [*parts, encoder.finish()]


def decoded(data: bytes, sound_format: SoundFormat) -> tuple[np.ndarray, int]:
    """Samples from -1 to 1 and their rate, by FFmpeg's own reading of the bytes."""
    if sound_format == "pcm":
        return np.frombuffer(data[: len(data) // 2 * 2], "<i2") / 32768, RAW_RATE
    with av.open(io.BytesIO(data)) as container:
        resampler = av.AudioResampler("fltp", "mono")
        frames = []
        try:
            for frame in container.decode(audio=0):
                frames += resampler.resample(frame)
        except av.FFmpegError:  # the cut end of a file
            pass
        rate = container.streams.audio[0].rate
    return np.concatenate([frame.to_ndarray()[0] for frame in frames]), rate


def pitch(samples: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * rate / len(samples))


@pytest.mark.parametrize("rate", [24_000, 22_050, 16_000, 48_000])
@pytest.mark.parametrize("sound_format", FORMATS)
def test_what_goes_in_comes_out(sound_format: SoundFormat, rate: int) -> None:
    pcm = tone(1.5, rate, 600)
    for data in (b"".join(pieces(pcm, sound_format)), encode_sound(pcm, sound_format)):
        samples, decoded_rate = decoded(data, sound_format)
        assert len(samples) / decoded_rate == pytest.approx(1.5, abs=0.12)
        assert pitch(samples, decoded_rate) == pytest.approx(600, abs=3)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.77])
@pytest.mark.parametrize("sound_format", FORMATS)
def test_a_cut_file_plays_up_to_the_cut(sound_format: SoundFormat, share: float) -> None:
    data = b"".join(pieces(tone(4.0, 24_000, 600), sound_format))
    samples, rate = decoded(data[: int(len(data) * share)], sound_format)
    # FFmpeg's FLAC reader gives up its ten frames of look-ahead with the broken one.
    lost = 0.9 if sound_format == "flac" else 0.5
    assert len(samples) / rate == pytest.approx(4.0 * share, abs=lost)
    assert pitch(samples, rate) == pytest.approx(600, abs=3)


@pytest.mark.parametrize("sound_format", FORMATS)
def test_it_flows(sound_format: SoundFormat) -> None:
    parts = pieces(tone(3.0, 24_000), sound_format, 9600)
    assert sum(bool(part) for part in parts) > len(parts) // 2
    assert len(parts[-1]) < sum(map(len, parts)) / 4


def test_lengths_of_wav() -> None:
    pcm = tone(0.1, 24_000)
    streamed = b"".join(pieces(pcm, "wav"))
    assert streamed[4:8] == streamed[40:44] == b"\xff\xff\xff\xff"
    assert streamed[44:] == pcm.data
    with wave.open(io.BytesIO(encode_sound(pcm, "wav"))) as reader:
        assert (reader.getframerate(), reader.getnframes()) == (24_000, pcm.samples)


def test_raw_sound_is_resampled_once() -> None:
    pcm = tone(0.7, 22_050)
    whole = soxr.resample(np.frombuffer(pcm.data, "<i2"), 22_050, RAW_RATE)
    streamed = np.frombuffer(b"".join(pieces(pcm, "pcm", 1234)), "<i2")
    assert abs(len(streamed) - len(whole)) <= 1
    assert np.abs(streamed[:10_000].astype(int) - whole[:10_000]).max() <= 2


def test_faults() -> None:
    with pytest.raises(E3RGError, match="wma"):
        SoundEncoder("wma", 24_000)  # type: ignore[arg-type]
    encoder = SoundEncoder("mp3", 24_000)
    with pytest.raises(ValueError, match="16000"):
        encoder.write(Pcm(b"\0\0", 16_000))
    encoder.finish()
    assert encoder.finish() == b""
    with pytest.raises(RuntimeError):
        encoder.write(Pcm(b"\0\0", 24_000))
    assert set(FORMATS) == set(get_args(AudioFormat))
    assert encode_sound(Pcm(b"", 16_000), "pcm") == b""


def test_mime_types() -> None:
    assert SoundEncoder("mp3", 24_000).mime_type == "audio/mpeg"
    assert SoundEncoder("opus", 24_000).mime_type == "audio/ogg; codecs=opus"
