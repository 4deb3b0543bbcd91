"""Uploads: every format that is promised, and every kind of bad file."""

import io
import struct
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media_samples import FPS, RATE, audio_file, flash_and_beep, jpeg, tone, video_file

from e3rg.errors import E3RGError
from e3rg.media.decode import decode_upload, is_silent
from e3rg.media.encode import encode_audio, wav_header
from e3rg.media.limits import Kind, MediaLimits
from e3rg.media.mux import write_mp4
from e3rg.media.types import Clip, Pcm

LIMITS = MediaLimits(max_seconds=20)


@pytest.fixture
def decode(tmp_path: Path):
    def decode(
        data: bytes, kind: Kind = "audio", limits: MediaLimits = LIMITS, name: str = "upload"
    ) -> Clip:
        path = tmp_path / name
        path.write_bytes(data)
        return decode_upload(path, kind, limits, kind)

    return decode


@pytest.fixture
def refusal(decode):
    def refusal(*args: object, **kwargs: object) -> E3RGError:
        with pytest.raises(E3RGError) as caught:
            decode(*args, **kwargs)
        error = caught.value
        assert error.param in ("audio", "video")
        assert error.message.startswith(f"{error.param}: ")
        assert error.code.startswith(error.param)
        assert error.status == (413 if error.code.endswith("_too_large") else 422)
        return error

    return refusal


def loudness(pcm: Pcm) -> float:
    return float(np.sqrt(np.mean(np.frombuffer(pcm.data, "<i2").astype(float) ** 2)))


def pitch(pcm: Pcm) -> float:
    samples = np.frombuffer(pcm.data, "<i2").astype(float)
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * pcm.sample_rate / len(samples))


def grey(picture: bytes) -> float:
    with av.open(io.BytesIO(picture)) as container:
        return float(next(container.decode(video=0)).to_ndarray(format="gray").mean())


# Sound

AUDIO = {
    "wav 16-bit": ("wav", "pcm_s16le", 24_000, "mono", None),
    "wav 24-bit stereo": ("wav", "pcm_s24le", 44_100, "stereo", None),
    "wav 8-bit": ("wav", "pcm_u8", 8_000, "mono", None),
    "wav float, 8 channels": ("wav", "pcm_f32le", 96_000, "7.1", None),
    "wav mu-law": ("wav", "pcm_mulaw", 8_000, "mono", None),
    "wav odd rate": ("wav", "pcm_s16le", 31_337, "mono", None),
    "mp3": ("mp3", "libmp3lame", 44_100, "stereo", None),
    "flac 24-bit": ("flac", "flac", 48_000, "stereo", "s32"),
    "ogg opus": ("ogg", "libopus", 48_000, "stereo", None),
    "m4a": ("ipod", "aac", 44_100, "stereo", None),
    "aac": ("adts", "aac", 16_000, "mono", None),
    "webm": ("webm", "libopus", 48_000, "mono", None),
}


@pytest.mark.parametrize("name", AUDIO)
def test_sound_of_every_format(name: str, decode) -> None:
    muxer, codec, rate, layout, sample_format = AUDIO[name]
    data = audio_file(
        tone(2.0, rate, 440), muxer, codec, layout=layout, sample_format=sample_format
    )
    clip = decode(data, name="misleading.txt")
    assert clip.frames == ()
    assert clip.audio is not None and clip.audio.sample_rate == 16_000
    assert clip.seconds == clip.audio.seconds == pytest.approx(2.0, abs=0.15)
    assert pitch(clip.audio) == pytest.approx(440, abs=2)
    assert loudness(clip.audio) == pytest.approx(loudness(tone(2.0)), rel=0.08)


def test_a_recording_without_a_duration(decode) -> None:
    """Browsers' MediaRecorder writes WebM as a live stream."""
    live = {"live": "1"}
    clip = decode(audio_file(tone(2.0, 48_000), "webm", "libopus", options=live))
    assert clip.seconds == pytest.approx(2.0, abs=0.05)
    clip = decode(video_file(3.0, "webm", "libvpx", sound=True, options=live), "video")
    assert clip.seconds == pytest.approx(3.0, abs=0.1)
    assert len(clip.frames) == 8


def test_silence_is_fine(decode) -> None:
    clip = decode(encode_audio(Pcm(bytes(2 * RATE), RATE), "flac"))
    assert is_silent(clip.audio)
    assert clip.seconds == 1.0
    assert not is_silent(tone(0.1))
    assert is_silent(Pcm(b"", RATE))


def test_what_is_not_a_number_becomes_silence(decode) -> None:
    samples = np.zeros(RATE, "<f4")
    samples[:100] = np.nan
    samples[100:200] = [np.inf, -np.inf] * 50
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, 3, 1, RATE, 4 * RATE, 4, 32)
    body = head + struct.pack("<4sI", b"data", 4 * RATE) + samples.tobytes()
    clip = decode(b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body)
    assert clip.seconds == 1.0
    assert is_silent(Pcm(clip.audio.data[2000:], 16_000))


def test_sound_of_a_video(decode) -> None:
    clip = decode(video_file(1.0, sound=True), "audio")
    assert clip.frames == ()
    assert clip.audio.seconds == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "audio_empty"),
        (b"This is a letter, not a sound. " * 50, "audio_unreadable"),
        (b"RIFF", "audio_unreadable"),
        (b"\0" * 5000, "audio_unreadable"),
        (np.random.default_rng(1).bytes(20_000), "audio_unreadable"),
        (b"RIFF\xff\xff\xff\xffWAVE" + b"junk" * 100, "audio_unreadable"),
        (wav_header(RATE, 0), "audio_unreadable"),
        (wav_header(7, 100) + bytes(100), "audio_unreadable"),
        (b"fLaC" + bytes(500), "audio_unreadable"),
        (b"OggS" + bytes(500), "audio_unreadable"),
        (b"ID3\x04\0\0\0\0\0\0" + bytes(500), "audio_unreadable"),
        (jpeg(), "audio_unreadable"),
        (video_file(0.5), "audio_no_sound"),
    ],
)
def test_no_sound_in_it(data: bytes, code: str, refusal) -> None:
    assert refusal(data, name="speech.wav").code == code


def test_playlists_open_nothing(refusal, tmp_path: Path) -> None:
    secret = tmp_path / "secret.wav"
    secret.write_bytes(encode_audio(tone(1.0), "wav"))
    for text in (
        f"ffconcat version 1.0\nfile '{secret}'\n",
        f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{secret}\n#EXT-X-ENDLIST\n",
        f"concat:{secret}",
    ):
        assert refusal(text.encode(), name="a.m3u8").code == "audio_unreadable"
        assert refusal(text.encode(), "video", name="a.ffconcat").code == "video_unreadable"


def test_two_hours(refusal) -> None:
    count = 7200 * 4000  # samples of 8 bits
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 4000, 4000, 1, 8)
    head = struct.pack("<4sI4s", b"RIFF", 36 + count, b"WAVE") + form
    data = head + struct.pack("<4sI", b"data", count) + b"\x80" * count
    assert len(data) < LIMITS.max_bytes
    error = refusal(data)
    assert error.code == "audio_too_long"
    assert "7200 s" in error.message and "20 s" in error.message


def test_a_header_that_lies_about_the_length(refusal, decode) -> None:
    data = bytearray(audio_file(Pcm(bytes(2 * 8000 * 300), 8000), "flac", "flac"))
    # STREAMINFO's total samples are the low 36 bits of its bytes 10 to 17 (RFC 9639, 8.2).
    packed = int.from_bytes(data[18:26], "big") >> 36 << 36 | 8000
    data[18:26] = packed.to_bytes(8, "big")
    error = refusal(bytes(data))
    assert error.code == "audio_too_long"
    assert "more than 20 s" in error.message
    # A stream of unknown length says the most; what counts is what is there.
    pcm = tone(1.0)
    assert decode(wav_header(RATE, None) + pcm.data).seconds == 1.0


def test_mp3_is_as_long_as_it_decodes(refusal) -> None:
    error = refusal(audio_file(tone(25.0, 16_000), "mp3", "libmp3lame"))
    assert error.code == "audio_too_long"


def test_limits(refusal, decode) -> None:
    wav = encode_audio(tone(1.0), "wav")
    error = refusal(wav, limits=MediaLimits(max_bytes=10_000))
    assert error.code == "audio_too_large"
    assert "48,044" in error.message and "10,000" in error.message
    film = video_file(1.0)
    assert refusal(film, "video", MediaLimits(max_pixels=10_000)).code == "video_too_large"
    error = refusal(video_file(1.0, sound=True), "video", MediaLimits(max_streams=1))
    assert error.code == "video_unreadable"
    assert refusal(film, "video", MediaLimits(max_seconds=0.5)).code == "video_too_long"
    clip = decode(film, "video", MediaLimits(max_frames=3, frame_side=64))
    assert len(clip.frames) == 3


@pytest.mark.parametrize("audio_format", ["wav", "mp3", "flac", "opus", "aac"])
def test_a_sound_cut_short_gives_what_is_there(audio_format: str, decode) -> None:
    data = encode_audio(tone(4.0), audio_format)
    clip = decode(data[: len(data) // 2])
    assert 1.0 < clip.seconds < 3.0
    assert pitch(clip.audio) == pytest.approx(1000, abs=3)


def test_damage_in_the_middle_is_survived(decode) -> None:
    data = bytearray(encode_audio(tone(4.0), "mp3"))
    data[10_000:10_400] = bytes(400)
    assert decode(bytes(data)).seconds == pytest.approx(4.0, abs=0.4)


# Picture


@pytest.mark.parametrize(
    ("muxer", "codec"), [("mp4", "libx264"), ("mov", "libx264"), ("webm", "libvpx")]
)
@pytest.mark.parametrize("sound", [True, False])
@pytest.mark.parametrize("gop", [1000, 12])
def test_stills_are_spread_evenly(muxer: str, codec: str, sound: bool, gop: int, decode) -> None:
    clip = decode(video_file(4.0, muxer, codec, sound=sound, gop=gop), "video")
    assert clip.seconds == pytest.approx(4.0, abs=0.05)
    assert (clip.audio is not None) == sound
    if sound:
        assert clip.audio.seconds == pytest.approx(4.0, abs=0.05)
    shades = [grey(picture) for picture in clip.frames]
    # The grey value tells the time of a still: the middles of eighths.
    assert shades == pytest.approx([255 * (i + 0.5) / 8 for i in range(8)], abs=6)
    assert all(picture[:2] == b"\xff\xd8" for picture in clip.frames)


def test_stills_of_a_long_large_film_come_from_key_frames(
    decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("e3rg.media.stills.PIXELS_TO_DECODE", 1000)
    shades = [grey(picture) for picture in decode(video_file(8.0, gop=25), "video").frames]
    assert len(shades) == 8
    assert shades == pytest.approx([255 * i / 8 for i in range(8)], abs=6)


def test_size_of_stills(decode) -> None:
    clip = decode(video_file(0.4, size=(1280, 720)), "video")
    for picture in clip.frames:
        with av.open(io.BytesIO(picture)) as container:
            stream = container.streams.video[0]
            assert (stream.width, stream.height) == (512, 288)
    assert len(decode(video_file(1 / FPS), "video").frames) == 1


def test_a_phone_held_upright(decode) -> None:
    """A rotation in the track header (tkhd's matrix) is applied."""
    data = bytearray(video_file(0.4, size=(320, 240), white_left=True))
    at = data.index(b"tkhd") + 4 + 40
    # 90° clockwise, as phones write it (ISO/IEC 14496-12, 8.3.2).
    data[at : at + 36] = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
    picture = decode(bytes(data), "video").frames[0]
    with av.open(io.BytesIO(picture)) as container:
        pixels = next(container.decode(video=0)).to_ndarray(format="gray")
    assert pixels.shape == (320, 240)
    assert pixels[:150].min() > 200  # the left side came to the top
    assert pixels[170:].max() < 50


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "video_empty"),
        (b"not a film " * 100, "video_unreadable"),
        (encode_audio(tone(0.5), "mp3"), "video_no_picture"),
        (audio_file(tone(0.5, 48_000), "ipod", "aac"), "video_no_picture"),
        (video_file(2.0)[:-1500], "video_unreadable"),  # the index was at the end
        (b"\x1aE\xdf\xa3" + bytes(200), "video_unreadable"),
    ],
)
def test_no_picture_in_it(data: bytes, code: str, refusal) -> None:
    assert refusal(data, "video", name="film.mp4").code == code


def test_a_film_cut_short_gives_what_is_there(decode) -> None:
    plain = io.BytesIO()
    write_mp4(*flash_and_beep(0, 100, size=64), plain, width=64, height=64)
    for data in (video_file(4.0, "webm", "libvpx", sound=True), plain.getvalue()):
        clip = decode(data[: len(data) * 2 // 3], "video")
        assert 1.0 < clip.seconds < 3.5
        assert len(clip.frames) >= 1


def test_a_cover_is_not_a_film(refusal) -> None:
    sink = io.BytesIO()
    with av.open(sink, "w", format="mp3") as container:
        sound = container.add_stream("libmp3lame", rate=44_100)
        cover = container.add_stream("mjpeg", rate=1)
        cover.width = cover.height = 64
        cover.pix_fmt = "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic
        frame = av.VideoFrame(64, 64, "yuvj420p")
        frame.pts = 0
        container.mux(cover.encode(frame))
        container.mux(cover.encode(None))
        samples = np.frombuffer(tone(1.0, 44_100).data, "<i2").reshape(1, -1)
        part = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        part.sample_rate = 44_100
        container.mux(sound.encode(part))
        container.mux(sound.encode(None))
    assert refusal(sink.getvalue(), "video").code == "video_no_picture"


SEEDS = [
    encode_audio(tone(0.3), "wav"),
    encode_audio(tone(0.3), "mp3"),
    encode_audio(tone(0.3), "opus"),
    audio_file(tone(0.3, 44_100), "ipod", "aac"),
    video_file(0.4, sound=True, size=(64, 64)),
]


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_damaged_files_decode_or_are_refused(data, tmp_path: Path) -> None:
    broken = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at] = data.draw(st.integers(0, 255))
    path = tmp_path / "broken"
    path.write_bytes(broken)
    for kind in ("audio", "video"):
        try:
            decode_upload(path, kind, LIMITS, "file")
        except E3RGError as error:
            assert error.status in (413, 422)
