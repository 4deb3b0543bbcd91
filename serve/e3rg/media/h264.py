"""H.264 as the container wants it: Annex B taken apart, parameter sets found, a still held."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import av
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType

from e3rg.media.types import VideoPacket

SPS, PPS, DELIMITER = 7, 8, 9


def nal_units(annex_b: bytes) -> list[bytes]:
    """Split an Annex B byte stream at its start codes (ITU-T H.264, B.1)."""
    units = []
    start = annex_b.find(b"\0\0\1")
    while start >= 0:
        start += 3
        end = annex_b.find(b"\0\0\1", start)
        unit = annex_b[start : end if end >= 0 else None].rstrip(b"\0")
        if unit:
            units.append(unit)
        start = end
    return units


def parameter_sets(units: Iterable[bytes]) -> tuple[bytes, bytes] | None:
    """The sequence and the picture parameter set among NAL units, or None if one is missing."""
    found = {unit[0] & 0x1F: unit for unit in units}
    return (found[SPS], found[PPS]) if SPS in found and PPS in found else None


def to_sample(units: Iterable[bytes], known: tuple[bytes, bytes]) -> bytes:
    """NAL units with 4-byte lengths (ISO/IEC 14496-15, 5.3.2).

    Parameter sets that the header holds and access unit delimiters are left out.
    """
    kept = [u for u in units if u not in known and u[0] & 0x1F != DELIMITER]
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in kept)


def codec_string(sps: bytes) -> str:
    """The RFC 6381 name of the stream, e.g. ``avc1.64001f``."""
    return f"avc1.{sps[1]:02x}{sps[2]:02x}{sps[3]:02x}"


def encode_still(jpeg: bytes, frames: int, *, fps: int = 25, size: int = 512) -> list[VideoPacket]:
    """Hold one picture for some frames: a key frame, then frames that repeat it.

    Args:
        jpeg: the picture; scaled to size×size.
        frames: how many frames.
        fps: frames a second.
        size: pixels a side.
    """
    if frames <= 0:
        return []
    decoder = VideoCodecContext.create("mjpeg", "r")
    picture = (decoder.decode(av.Packet(jpeg)) + decoder.decode(None))[0]
    picture = picture.reformat(size, size, "yuv420p", dst_color_range="MPEG")
    picture.pict_type = PictureType.NONE  # else each repetition is a key frame, as the JPEG was
    encoder = VideoCodecContext.create("libx264", "w")
    encoder.width = encoder.height = size
    encoder.pix_fmt = "yuv420p"
    encoder.time_base = Fraction(1, fps)
    encoder.framerate = Fraction(fps)
    encoder.thread_count = 1
    encoder.options = {
        "preset": "veryfast",
        "tune": "stillimage",
        "profile": "high",
        "crf": "23",
        "x264-params": "bframes=0:rc-lookahead=0:sync-lookahead=0:scenecut=0:keyint=infinite",
    }
    packets = []
    for index in range(frames + 1):
        if index < frames:
            picture.pts, picture.time_base = index, Fraction(1, fps)
        packets += encoder.encode(picture if index < frames else None)
    return [VideoPacket(bytes(packet), packet.is_keyframe) for packet in packets]
