"""A finished film in fragments, as a browser's MediaSource takes it; its pictures are the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from av.bitstream import BitStreamFilterContext

from e3rg.media.mux import FragmentedMp4Muxer
from e3rg.media.types import Pcm, VideoPacket


@dataclass(frozen=True, slots=True)
class Fragmented:
    """A film in fragments.

    Attributes:
        data: fragmented MP4.
        frames: pictures in it.
        mime_type: with the codecs, as MediaSource wants it.
    """

    data: bytes
    frames: int
    mime_type: str


def fragmented(path: Path) -> Fragmented:
    """Make a fragmented MP4 of one that ``write_mp4`` made.

    The sound is encoded again: fragments need its priming told in their own way.

    Raises:
        OSError, av.error.FFmpegError: if it cannot be read.
    """
    packets: list[VideoPacket] = []
    sound: list[bytes] = []
    with av.open(str(path)) as film:
        video, audio = film.streams.video[0], film.streams.audio[0]
        annex_b = BitStreamFilterContext("h264_mp4toannexb", video)
        rate = audio.codec_context.sample_rate
        for packet in film.demux(video, audio):
            if packet.stream is video:
                packets += [
                    VideoPacket(bytes(each), each.is_keyframe)
                    for each in annex_b.filter(packet)
                    if each.size
                ]
                continue
            for frame in packet.decode():
                assert isinstance(frame, av.AudioFrame)
                loud = np.clip(frame.to_ndarray()[0], -1, 1)
                sound.append((loud * 32767).astype("<i2").tobytes())
    muxer = FragmentedMp4Muxer(sample_rate=rate)
    # Sound is cut or padded to the pictures' length, as it was in the film.
    samples = len(packets) * rate // 25
    pcm = b"".join(sound)[: 2 * samples].ljust(2 * samples, b"\0")
    data = muxer.write(tuple(packets), Pcm(pcm, rate))
    return Fragmented(data + muxer.finish(), len(packets), muxer.mime_type)
