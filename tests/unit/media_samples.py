"""Sound and picture made by code, with marks that a test can find again after decoding."""

from __future__ import annotations

import io
from fractions import Fraction

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext

from e3rg.media.types import Pcm, VideoPacket

RATE = 24_000
FPS = 25
PERIOD = 25  # frames from one flash to the next


def tone(seconds: float, rate: int = RATE, hertz: float = 1000) -> Pcm:
    time = np.arange(round(seconds * rate)) / rate
    return Pcm((np.sin(2 * np.pi * hertz * time) * 12_000).astype("<i2").tobytes(), rate)


def flash_and_beep(first: int, count: int, size: int = 512) -> tuple[list[VideoPacket], Pcm]:
    """Frames first to first+count of a turn, white and with a beep at every multiple of PERIOD."""
    encoder = VideoCodecContext.create("libx264", "w")
    encoder.width = encoder.height = size
    encoder.pix_fmt = "yuv420p"
    encoder.time_base, encoder.framerate = Fraction(1, FPS), Fraction(FPS)
    encoder.thread_count = 1
    encoder.options = {
        "preset": "ultrafast",
        "crf": "30",
        "x264-params": "bframes=0:rc-lookahead=0:sync-lookahead=0:scenecut=0:keyint=infinite",
    }
    beep = np.frombuffer(tone(1 / FPS).data, "<i2")
    sound = np.zeros((count, len(beep)), "<i2")
    packets = []
    for index in range(count):
        marked = (first + index) % PERIOD == 0
        sound[index] = beep * marked
        frame = av.VideoFrame(size, size, "yuv420p")
        for plane, value in zip(frame.planes, (235 if marked else 16, 128, 128), strict=True):
            plane.update(bytes([value]) * plane.buffer_size)
        frame.pts, frame.time_base = index, Fraction(1, FPS)
        packets += encoder.encode(frame)
    packets += encoder.encode(None)
    return [VideoPacket(bytes(p), p.is_keyframe) for p in packets], Pcm(sound.tobytes(), RATE)


def marks(file: bytes) -> tuple[list[float], list[float]]:
    """Seconds at which the flashes and the beeps of a file start."""
    flashes: list[float] = []
    beeps: list[float] = []
    with av.open(io.BytesIO(file)) as container:
        for frame in container.decode():
            assert frame.pts is not None and frame.time_base is not None
            time = float(frame.pts * frame.time_base)
            if isinstance(frame, av.VideoFrame):
                if frame.to_ndarray()[frame.height // 2, frame.width // 2] > 120:
                    flashes.append(time)
            else:
                for index in np.flatnonzero(np.abs(frame.to_ndarray()[0]) > 0.1):
                    if not beeps or time + index / frame.sample_rate - beeps[-1] > 0.5:
                        beeps.append(time + index / frame.sample_rate)
    return flashes, beeps


def jpeg(size: int = 256) -> bytes:
    """A coloured gradient as a JPEG file."""
    ramp = np.linspace(0, 255, size, dtype=np.uint8)
    picture = np.stack([np.tile(ramp, (size, 1)), np.tile(ramp[:, None], (1, size))], axis=-1)
    picture = np.concatenate([picture, np.full((size, size, 1), 90, np.uint8)], axis=-1)
    encoder = VideoCodecContext.create("mjpeg", "w")
    encoder.width = encoder.height = size
    encoder.pix_fmt = "yuvj420p"
    encoder.time_base = Fraction(1, FPS)
    frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuvj420p")
    frame.pts = 0
    return b"".join(bytes(p) for p in encoder.encode(frame) + encoder.encode(None))


def audio_file(
    pcm: Pcm,
    muxer: str,
    codec: str,
    *,
    layout: str = "mono",
    sample_format: str | None = None,
    options: dict[str, str] | None = None,
) -> bytes:
    """Encode sound in any container; every channel holds the same."""
    sink = io.BytesIO()
    with av.open(sink, "w", format=muxer, options=options or {}) as container:
        stream = container.add_stream(codec, rate=pcm.sample_rate)
        stream.layout = layout
        if sample_format:
            stream.format = sample_format
        samples = np.frombuffer(pcm.data, "<i2")
        for at in range(0, len(samples), 1 << 20):
            part = np.repeat(samples[at : at + (1 << 20)], stream.layout.nb_channels)
            frame = av.AudioFrame.from_ndarray(part.reshape(1, -1), format="s16", layout=layout)
            frame.sample_rate = pcm.sample_rate
            frame.pts, frame.time_base = at, Fraction(1, pcm.sample_rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return sink.getvalue()


def video_file(
    seconds: float,
    muxer: str = "mp4",
    codec: str = "libx264",
    *,
    size: tuple[int, int] = (320, 240),
    sound: bool = False,
    gop: int = 50,
    white_left: bool = False,
    options: dict[str, str] | None = None,
) -> bytes:
    """A film at 25 frames a second whose grey value rises from black to white.

    With ``white_left`` it is black all the time, but for its left half, which is white.
    """
    sink = io.BytesIO()
    with av.open(sink, "w", format=muxer, options=options or {}) as container:
        stream = container.add_stream(codec, rate=FPS)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.codec_context.gop_size = gop
        stream.codec_context.thread_count = 1
        if codec == "libx264":
            stream.options = {"preset": "ultrafast", "bf": "2"}
        else:
            stream.options = {"deadline": "realtime", "cpu-used": "8"}
        audio = None
        if sound:
            audio = container.add_stream("libopus" if muxer == "webm" else "aac", rate=48_000)
            audio.layout = "mono"
        count = round(seconds * FPS)
        for index in range(count):
            grey = 16 + round(219 * index / max(1, count - 1))
            frame = av.VideoFrame(*size, "yuv420p")
            for plane, value in zip(frame.planes, (grey, 128, 128), strict=True):
                plane.update(bytes([value]) * plane.buffer_size)
            if white_left:
                rows = np.full((frame.height, frame.planes[0].line_size), 16, np.uint8)
                rows[:, : frame.width // 2] = 235
                frame.planes[0].update(rows.tobytes())
            frame.pts, frame.time_base = index, Fraction(1, FPS)
            container.mux(stream.encode(frame))
            if audio is not None:
                samples = np.frombuffer(tone(1 / FPS, 48_000).data, "<i2").reshape(1, -1)
                part = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
                part.sample_rate = 48_000
                part.pts, part.time_base = index * 1920, Fraction(1, 48_000)
                container.mux(audio.encode(part))
        container.mux(stream.encode(None))
        if audio is not None:
            container.mux(audio.encode(None))
    return sink.getvalue()
