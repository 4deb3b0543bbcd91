"""Uploads decoded: any common audio file to speech-rate PCM, any common video to stills and sound.

The content decides what a file is, never its name. ``decode_upload`` runs FFmpeg on bytes from
strangers: call it through ``e3rg.media.decoder.MediaDecoder``, which does so in a child process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import av
import numpy as np
import soxr
from av.container import InputContainer
from numpy.typing import NDArray

from e3rg.errors import E3RGError
from e3rg.media.limits import Kind, MediaLimits
from e3rg.media.stills import Stills
from e3rg.media.types import SPEECH_INPUT_RATE, Clip, Pcm

# Only plain containers: a playlist (HLS, concat) would open other files and addresses.
CONTAINERS = "wav,mp3,flac,ogg,aac,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm"
ESTIMATED = {"mp3", "aac"}  # no duration in the header: FFmpeg guesses it from the bit rate
MIN_RATE, MAX_RATE, MAX_CHANNELS = 4_000, 384_000, 64
FAULTS_ALLOWED = 100  # packets that do not decode, in one file
SILENCE_PEAK = 33  # of 32,768: -60 dBFS


def is_silent(pcm: Pcm) -> bool:
    """Whether nothing is louder than -60 dBFS (or there are no samples)."""
    samples = np.frombuffer(pcm.data, "<i2").astype(np.int32)
    return samples.size == 0 or int(np.abs(samples).max()) < SILENCE_PEAK


def check_size(path: Path, kind: Kind, limits: MediaLimits, param: str) -> None:
    """Refuse a file that is empty or too large, without opening it.

    Raises:
        E3RGError: ``<kind>_empty`` (422), ``<kind>_too_large`` (413).
    """
    size = path.stat().st_size
    if size == 0:
        raise E3RGError(
            f"{kind}_empty",
            f"{param}: the file has no bytes: send it again",
            param=param,
            status=422,
        )
    if size > limits.max_bytes:
        message = f"{param}: the file has {size:,} bytes, at most {limits.max_bytes:,} are taken"
        raise E3RGError(f"{kind}_too_large", message, param=param, status=413)


def decode_upload(path: Path, kind: Kind, limits: MediaLimits, param: str) -> Clip:
    """Decode an uploaded file.

    A file cut short gives what is there. Sound is mixed to one channel; a video gives at most
    ``limits.max_frames`` stills.

    Args:
        path: wav, mp3, flac, ogg, m4a, aac or webm audio; mp4, mov or webm video.
        kind: what the caller takes it for; ``audio`` takes the sound of a video, too.
        limits: bounds.
        param: the request's field, for messages.

    Raises:
        E3RGError: with ``param``; status 422, or 413 where a size is too large: ``<kind>_empty``,
            ``<kind>_too_large``, ``<kind>_unreadable``, ``<kind>_too_long``, ``audio_no_sound``,
            ``video_no_picture``.
    """
    check_size(path, kind, limits, param)
    upload = _Upload(path, kind, limits, param)
    try:
        return upload.decode()
    except (av.FFmpegError, ValueError, EOFError, MemoryError) as error:
        raise upload.unreadable(f"cannot be decoded as {kind} ({_reason(error)})") from error


class _Upload:
    """One file on its way through the decoder."""

    def __init__(self, path: Path, kind: Kind, limits: MediaLimits, param: str) -> None:
        self.path = path
        self.kind = kind
        self.limits = limits
        self.param = param

    def decode(self) -> Clip:
        with self.open() as container:
            if len(container.streams) > self.limits.max_streams:
                raise self.unreadable(f"{len(container.streams)} tracks are too many")
            header = (container.duration or 0) / av.time_base
            if header > self.limits.max_seconds and container.format.name not in ESTIMATED:
                raise self.too_long(header)
            sound = self._sound(container)
            stills = self._stills(container)
            pcm = _SpeechPcm()
            for packet in _packets(container, sound, stills.stream if stills else None):
                if packet.stream is sound:
                    pcm.decode(packet)
                elif stills is not None:
                    stills.note(packet)
                reached = max(pcm.seconds, stills.seconds if stills else 0.0)
                if reached > self.limits.max_seconds:  # the header said less, or nothing
                    raise self.too_long(max(header, reached), at_least=reached >= header)
        audio = pcm.finish()
        if self.kind == "audio" and not audio.data:
            raise self.unreadable("nothing in it could be decoded")
        frames: tuple[bytes, ...] = ()
        if stills is not None:
            with self.open() as container:
                frames = stills.take(container)
            if not frames:
                raise self.unreadable("no picture in it could be decoded")
        seconds = max(audio.seconds, stills.seconds if stills else 0.0)
        return Clip(audio if audio.data else None, frames, seconds)

    @contextlib.contextmanager
    def open(self) -> Iterator[InputContainer]:
        # Opened by descriptor, so that FFmpeg has no name to guess the format from.
        with open(os.open(self.path, os.O_RDONLY), "rb") as file:  # noqa: PTH123
            options = {"format_whitelist": CONTAINERS, "protocol_whitelist": "none"}
            name = _container(file.read(12))
            file.seek(0)
            with av.open(file, "r", name, container_options=options, io_open=_refuse) as container:
                yield container

    def _sound(self, container: InputContainer) -> Any:
        sound = next(iter(container.streams.audio), None)
        if sound is None:
            if self.kind == "audio":
                raise self.fault("audio_no_sound", "the file has no sound track: send a recording")
            return None
        codec = sound.codec_context
        if not MIN_RATE <= codec.sample_rate <= MAX_RATE or codec.channels > MAX_CHANNELS:
            raise self.unreadable(f"{codec.sample_rate} Hz with {codec.channels} channels")
        codec.thread_count = 1
        return sound

    def _stills(self, container: InputContainer) -> Stills | None:
        if self.kind == "audio":
            return None
        for stream in container.streams.video:
            if stream.disposition & av.stream.Disposition.attached_pic:
                continue  # a cover is not the speaker
            width, height = stream.codec_context.width, stream.codec_context.height
            if width * height > self.limits.max_pixels:
                text = f"the picture is {width}×{height}, at most {self.limits.max_pixels:,} pixels"
                raise self.fault("video_too_large", f"{text} are taken", 413)
            return Stills(stream, self.limits)
        raise self.fault("video_no_picture", "the file has no picture track: send it as audio")

    def fault(self, code: str, text: str, status: int = 422) -> E3RGError:
        return E3RGError(code, f"{self.param}: {text}", param=self.param, status=status)

    def unreadable(self, text: str) -> E3RGError:
        message = f"{self.param}: {text}: send a complete wav, mp3, flac, ogg, m4a or webm file"
        if self.kind == "video":
            message = f"{self.param}: {text}: send a complete mp4, mov or webm file"
        return E3RGError(f"{self.kind}_unreadable", message, param=self.param, status=422)

    def too_long(self, seconds: float, *, at_least: bool = False) -> E3RGError:
        length = f"{'more than ' if at_least else ''}{seconds:.0f} s long"
        limit = f"at most {self.limits.max_seconds:.0f} s are taken"
        text = f"the file is {length}, {limit}: send a shorter one"
        return self.fault(f"{self.kind}_too_long", text)


class _SpeechPcm:
    """Collects decoded sound as mono PCM16 at SPEECH_INPUT_RATE."""

    def __init__(self) -> None:
        self._faults = 0
        self._rate = 0
        self._resampler: soxr.ResampleStream | None = None
        self._parts: list[bytes] = []
        self.seconds = 0.0

    def decode(self, packet: Any) -> None:
        """Add a packet's sound; what cannot be decoded is left out, up to FAULTS_ALLOWED times."""
        if self._faults > FAULTS_ALLOWED:
            return
        try:
            for frame in packet.decode():
                self._add(frame)
        except (av.FFmpegError, ValueError):
            self._faults += 1

    def _add(self, frame: Any) -> None:
        mono = _mono(frame)
        self.seconds += frame.samples / frame.sample_rate
        if frame.sample_rate != self._rate:  # also in the middle of a chained file
            if not MIN_RATE <= frame.sample_rate <= MAX_RATE:
                raise ValueError(f"{frame.sample_rate} Hz")
            self._flush()
            self._rate = frame.sample_rate
            self._resampler = soxr.ResampleStream(
                self._rate, SPEECH_INPUT_RATE, 1, dtype="float32", quality="HQ"
            )
        assert self._resampler is not None
        self._put(self._resampler.resample_chunk(mono))

    def finish(self) -> Pcm:
        self._flush()
        return Pcm(b"".join(self._parts), SPEECH_INPUT_RATE)

    def _flush(self) -> None:
        if self._resampler is not None:
            self._put(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))
            self._resampler = None

    def _put(self, samples: NDArray[np.float32]) -> None:
        self._parts.append((np.clip(samples, -1, 1) * 32767).round().astype("<i2").tobytes())


def _mono(frame: Any) -> NDArray[np.float32]:
    """The mean of a frame's channels as float32 in -1 to 1; what is not a number becomes 0."""
    array = frame.to_ndarray()
    if not frame.format.is_planar:
        array = array.reshape(-1, frame.layout.nb_channels).T
    if array.dtype.kind == "f":
        array = np.nan_to_num(array, nan=0.0, posinf=1.0, neginf=-1.0)
        scaled = np.clip(array, -1, 1)
    elif array.dtype.kind == "u":
        scaled = array.astype(np.float32) / 128 - 1  # u8 is FFmpeg's only unsigned format
    else:
        scaled = array.astype(np.float32) / float(-np.iinfo(array.dtype).min)
    mono: NDArray[np.float32] = scaled.mean(axis=0, dtype=np.float32)
    return mono


def _packets(container: InputContainer, *streams: Any) -> Iterator[Any]:
    """Packets of the streams until the end, or until the file breaks off."""
    with contextlib.suppress(av.FFmpegError):
        yield from container.demux(*(stream for stream in streams if stream is not None))


def _container(head: bytes) -> str | None:
    """FFmpeg's name for what a file starts with, or None where only a closer look can tell.

    FFmpeg's own guess weighs all its formats: a pure tone in a WAV file can look like another one.
    """
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "wav"
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
        return "mov"
    starts = {b"fLaC": "flac", b"OggS": "ogg", b"\x1aE\xdf\xa3": "matroska"}
    return starts.get(head[:4])


def _refuse(*_: object) -> NoReturn:
    raise PermissionError("an upload may not open other files")


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text)[:100].lower()
