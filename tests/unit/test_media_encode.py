"""Audio formats, whole and streamed, decoded back."""

import io
import wave
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from media_samples import RATE, tone

from e3rg.errors import E3RGError
from e3rg.media.decode import decode_upload, is_silent
from e3rg.media.encode import MIME_TYPES, AudioFormat, AudioStreamEncoder, encode_audio
from e3rg.media.limits import MediaLimits
from e3rg.media.types import Pcm

FORMATS: tuple[AudioFormat, ...] = get_args(AudioFormat)
FILES = [name for name in FORMATS if name != "pcm"]


def pitch(pcm: Pcm) -> float:
    """Hz of the strongest tone."""
    samples = np.frombuffer(pcm.data, "<i2").astype(float)
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * pcm.sample_rate / len(samples))


def streamed(audio_format: AudioFormat, pcm: Pcm, step: int) -> list[bytes]:
    encoder = AudioStreamEncoder(audio_format, pcm.sample_rate)
    parts = [encoder.write(pcm.data[at : at + step]) for at in range(0, len(pcm.data), step)]
    return [*parts, encoder.finish()]


@pytest.mark.parametrize("rate", [24_000, 22_050, 16_000])
@pytest.mark.parametrize("audio_format", FILES)
def test_decodes_to_what_was_said(audio_format: AudioFormat, rate: int, tmp_path: Path) -> None:
    pcm = tone(1.0, rate, 700)
    for data in (encode_audio(pcm, audio_format), b"".join(streamed(audio_format, pcm, 3334))):
        path = tmp_path / "file"
        path.write_bytes(data)
        clip = decode_upload(path, "audio", MediaLimits(), "file")
        assert clip.audio is not None
        assert clip.audio.sample_rate == 16_000
        assert clip.seconds == pytest.approx(1.0, abs=0.12)  # mp3 and adts keep their padding
        assert pitch(clip.audio) == pytest.approx(700, abs=3)
        assert not is_silent(clip.audio)


@pytest.mark.parametrize("audio_format", FORMATS)
def test_a_stream_flows(audio_format: AudioFormat) -> None:
    """Sound leaves while it comes in: most of it before the end, in many pieces."""
    parts = streamed(audio_format, tone(3.0), RATE // 5)
    assert sum(bool(part) for part in parts) > len(parts) // 2
    assert len(parts[-1]) < sum(map(len, parts)) / 4


def test_wav_is_what_other_readers_know() -> None:
    pcm = tone(0.1)
    with wave.open(io.BytesIO(encode_audio(pcm, "wav"))) as reader:
        assert reader.getparams()[:4] == (1, 2, RATE, 2400)
        assert reader.readframes(2400) == pcm.data
    assert encode_audio(pcm, "pcm") == pcm.data


def test_flac_is_lossless_at_any_cut() -> None:
    import av

    pcm = tone(0.5)
    for step in (2, 962, 5000):
        with av.open(io.BytesIO(b"".join(streamed("flac", pcm, step)))) as container:
            decoded = b"".join(f.to_ndarray().astype("<i2").tobytes() for f in container.decode())
        assert decoded == pcm.data


@pytest.mark.parametrize("audio_format", FORMATS)
def test_no_sound_at_all(audio_format: AudioFormat) -> None:
    data = encode_audio(Pcm(b"", RATE), audio_format)
    assert bool(data) == (audio_format != "pcm")


def test_faults() -> None:
    with pytest.raises(E3RGError, match="wma") as caught:
        AudioStreamEncoder("wma", RATE)  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.param) == ("unknown_audio_format", "format")
    encoder = AudioStreamEncoder("mp3", RATE)
    with pytest.raises(ValueError, match="odd"):
        encoder.write(b"\0")
    encoder.finish()
    assert encoder.finish() == b""
    with pytest.raises(RuntimeError):
        encoder.write(b"\0\0")
    assert set(MIME_TYPES) == set(FORMATS)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.binary(max_size=4000).map(lambda b: b[: len(b) // 2 * 2]), max_size=5))
def test_any_pieces_are_taken(pieces: list[bytes]) -> None:
    for audio_format in FORMATS:
        encoder = AudioStreamEncoder(audio_format, RATE)
        for piece in pieces:
            encoder.write(piece)
        encoder.finish()
