"""Boxes of the ISO base media file format, as far as one H.264 and one AAC track need them.

Section numbers are those of ISO/IEC 14496-12 (boxes), 14496-14 (esds) and 14496-15 (avcC). All
numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

MATRIX = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
SYNC_SAMPLE = 0x02000000  # 8.8.3.1: depends on no other sample
DELTA_SAMPLE = 0x01010000  # depends on others, is not a sync sample


@dataclass(frozen=True, slots=True)
class Sample:
    """One access unit of a track.

    Attributes:
        data: the bytes as the file holds them.
        duration: in the track's timescale.
        sync: whether decoding may start here.
    """

    data: bytes
    duration: int
    sync: bool


@dataclass(frozen=True, slots=True)
class Track:
    """What the header of a track needs.

    Attributes:
        id: track_ID, from 1.
        handler: ``vide`` or ``soun``.
        timescale: ticks a second.
        entry: the sample entry box (``avc1`` or ``mp4a``).
        width, height: pixels; 0 for sound.
        priming: ticks at the start that are decoded but not shown (encoder delay).
    """

    id: int
    handler: bytes
    timescale: int
    entry: bytes
    width: int = 0
    height: int = 0
    priming: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive samples of one track in a fragment; ``start`` is the first decode time."""

    track: Track
    start: int
    samples: Sequence[Sample]


def box(kind: bytes, *parts: bytes) -> bytes:
    """A box (4.2): size, type, content."""
    content = b"".join(parts)
    return struct.pack(">I4s", 8 + len(content), kind) + content


def full_box(kind: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    """A box with version and flags (4.2)."""
    return box(kind, struct.pack(">I", version << 24 | flags), *parts)


def ftyp() -> bytes:
    """File type (4.3). ``iso6`` stands for movie fragments with tfdt and default-base-is-moof."""
    return box(b"ftyp", b"isom", struct.pack(">I", 0x200), b"isomiso6avc1mp41")


def avc1(sps: bytes, pps: bytes, width: int, height: int) -> bytes:
    """H.264 sample entry with its decoder configuration (14496-15, 5.3.3 and 5.4.2).

    The chroma and depth fields that high profiles add say 4:2:0 and 8 bits, the only form used.
    """
    config = bytes([1, sps[1], sps[2], sps[3], 0xFF, 0xE1]) + struct.pack(">H", len(sps)) + sps
    config += b"\x01" + struct.pack(">H", len(pps)) + pps
    if sps[1] in (100, 110, 122, 144):
        config += bytes([0xFC | 1, 0xF8, 0xF8, 0])
    return box(
        b"avc1",
        struct.pack(">6xH16xHHIIIH32xHh", 1, width, height, 0x480000, 0x480000, 0, 1, 24, -1),
        box(b"avcC", config),
    )


def mp4a(config: bytes, sample_rate: int, bit_rate: int) -> bytes:
    """AAC sample entry, mono, with its AudioSpecificConfig (14496-14, 5.6; 14496-1, 7.2.6)."""

    def descriptor(tag: int, *parts: bytes) -> bytes:
        content = b"".join(parts)
        return bytes([tag, len(content)]) + content

    decoder = descriptor(
        0x04,
        # object type AAC, stream type audio, buffer size unknown, maximum and average bit rate
        bytes([0x40, 0x15, 0, 0, 0]) + struct.pack(">II", bit_rate, bit_rate),
        descriptor(0x05, config),
    )
    esds = descriptor(0x03, b"\0\0\0", decoder, descriptor(0x06, b"\x02"))
    return box(
        b"mp4a",
        struct.pack(">6xH8xHHHHI", 1, 1, 16, 0, 0, sample_rate << 16),
        full_box(b"esds", 0, 0, esds),
    )


def init_segment(tracks: Sequence[Track], timescale: int, title: str, comment: str) -> bytes:
    """The header of a fragmented file: ftyp and a moov without samples (8.8.1)."""
    traks = [_trak(track, timescale, _sample_table(track, (), ()), 0, 0) for track in tracks]
    trex = [full_box(b"trex", 0, 0, struct.pack(">5I", t.id, 1, 0, 0, 0)) for t in tracks]
    mvex = box(b"mvex", *trex)
    return ftyp() + box(
        b"moov", _mvhd(timescale, 0, len(tracks)), *traks, mvex, _udta(title, comment)
    )


def fragment(sequence: int, runs: Sequence[Run]) -> bytes:
    """A movie fragment: moof and mdat (8.8.4)."""
    # The data offsets count from the moof's start, and do not change its size.
    head = len(_moof(sequence, runs, 0)) + 8
    media = b"".join(sample.data for run in runs for sample in run.samples)
    return _moof(sequence, runs, head) + box(b"mdat", media)


def plain_file(
    tracks: Sequence[tuple[Track, Sequence[Sample]]], timescale: int, title: str, comment: str
) -> tuple[bytes, list[bytes]]:
    """A whole file with its header first ("fast start") and chunks of about a second interleaved.

    Returns:
        ftyp, moov and the mdat header; then the chunks to write behind them.
    """
    seconds: list[list[list[Sample]]] = [_by_second(track, samples) for track, samples in tracks]
    order = [
        (index, second)
        for second in range(max(map(len, seconds), default=0))
        for index, parts in enumerate(seconds)
        if second < len(parts)
    ]
    chunks = [b"".join(s.data for s in seconds[index][second]) for index, second in order]

    def header(base: int) -> bytes:
        offsets: list[list[int]] = [[] for _ in tracks]
        for (index, _), chunk in zip(order, chunks, strict=True):
            offsets[index].append(base)
            base += len(chunk)
        traks = []
        longest = 0
        for index, (track, _) in enumerate(tracks):
            media = sum(s.duration for part in seconds[index] for s in part)
            shown = round((media - track.priming) * timescale / track.timescale)
            longest = max(longest, shown)
            table = _sample_table(track, seconds[index], offsets[index])
            traks.append(_trak(track, timescale, table, media, shown))
        return ftyp() + box(
            b"moov", _mvhd(timescale, longest, len(tracks)), *traks, _udta(title, comment)
        )

    size = 8 + sum(map(len, chunks))
    # The offsets are 32-bit fields, so that the header's size does not depend on their values.
    return header(len(header(0)) + 8) + struct.pack(">I4s", size, b"mdat"), chunks


def _by_second(track: Track, samples: Sequence[Sample]) -> list[list[Sample]]:
    parts: list[list[Sample]] = []
    time = 0
    for sample in samples:
        while time // track.timescale >= len(parts):
            parts.append([])
        parts[-1].append(sample)
        time += sample.duration
    return parts


def _mvhd(timescale: int, duration: int, tracks: int) -> bytes:
    fields = struct.pack(">4IIH10x", 0, 0, timescale, duration, 0x10000, 0x100)
    return full_box(b"mvhd", 0, 0, fields, MATRIX, bytes(24), struct.pack(">I", tracks + 1))


def _trak(track: Track, timescale: int, stbl: bytes, media: int, shown: int) -> bytes:
    sound = track.handler == b"soun"
    tkhd = full_box(
        b"tkhd",
        0,
        3,  # enabled, in the movie
        struct.pack(">5I8xHHHH", 0, 0, track.id, 0, shown, 0, 0, 0x100 if sound else 0, 0),
        MATRIX,
        struct.pack(">II", track.width << 16, track.height << 16),
    )
    # 8.6.6: start behind the priming samples. A duration of 0 stands for "with all fragments".
    elst = full_box(b"elst", 0, 0, struct.pack(">IIiHH", 1, shown, track.priming, 1, 0))
    header = full_box(b"smhd", 0, 0, bytes(4)) if sound else full_box(b"vmhd", 0, 1, bytes(8))
    url = full_box(b"dref", 0, 0, struct.pack(">I", 1), full_box(b"url ", 0, 1))
    mdhd = struct.pack(">4IHH", 0, 0, track.timescale, media, 0x55C4, 0)  # language "und"
    hdlr = struct.pack(">I4s12x", 0, track.handler) + b"\0"
    mdia = box(
        b"mdia",
        full_box(b"mdhd", 0, 0, mdhd),
        full_box(b"hdlr", 0, 0, hdlr),
        box(b"minf", header, box(b"dinf", url), stbl),
    )
    return box(b"trak", tkhd, box(b"edts", elst), mdia)


def _sample_table(
    track: Track, chunks: Sequence[Sequence[Sample]], offsets: Sequence[int]
) -> bytes:
    """Sample tables (8.5 to 8.7); all empty in a fragmented file."""
    samples = [sample for chunk in chunks for sample in chunk]
    times: list[list[int]] = []
    for sample in samples:
        if times and times[-1][1] == sample.duration:
            times[-1][0] += 1
        else:
            times.append([1, sample.duration])
    stsc = [(i + 1, len(chunk), 1) for i, chunk in enumerate(chunks)]
    parts = [
        full_box(b"stsd", 0, 0, struct.pack(">I", 1), track.entry),
        full_box(b"stts", 0, 0, _table([tuple(row) for row in times])),
        full_box(b"stsc", 0, 0, _table(stsc)),
        full_box(b"stsz", 0, 0, bytes(4), _table([(len(s.data),) for s in samples])),
        full_box(b"stco", 0, 0, _table([(offset,) for offset in offsets])),
    ]
    if samples and not all(sample.sync for sample in samples):
        sync = [(i + 1,) for i, sample in enumerate(samples) if sample.sync]
        parts.append(full_box(b"stss", 0, 0, _table(sync)))
    return box(b"stbl", *parts)


def _table(rows: Sequence[tuple[int, ...]]) -> bytes:
    values = [value for row in rows for value in row]
    return struct.pack(f">I{len(values)}I", len(rows), *values)


def _moof(sequence: int, runs: Sequence[Run], offset: int) -> bytes:
    trafs = []
    for run in runs:
        # tfhd: default-base-is-moof; trun: data offset, and each sample's duration, size, flags.
        rows = [
            (s.duration, len(s.data), SYNC_SAMPLE if s.sync else DELTA_SAMPLE) for s in run.samples
        ]
        count = struct.pack(">Ii", len(rows), offset)
        values = struct.pack(f">{3 * len(rows)}I", *(value for row in rows for value in row))
        trafs.append(
            box(
                b"traf",
                full_box(b"tfhd", 0, 0x20000, struct.pack(">I", run.track.id)),
                full_box(b"tfdt", 1, 0, struct.pack(">Q", run.start)),
                full_box(b"trun", 0, 0x701, count, values),
            )
        )
        offset += sum(len(s.data) for s in run.samples)
    return box(b"moof", full_box(b"mfhd", 0, 0, struct.pack(">I", sequence)), *trafs)


def _udta(title: str, comment: str) -> bytes:
    """Title and comment in the form that players read (QuickTime's ``ilst``)."""
    tags = [(b"\xa9nam", title), (b"\xa9cmt", comment)]
    items = [
        box(kind, box(b"data", struct.pack(">II", 1, 0), text.encode())) for kind, text in tags
    ]
    handler = full_box(b"hdlr", 0, 0, bytes(4), b"mdirappl", bytes(9))
    return box(b"udta", full_box(b"meta", 0, 0, handler, box(b"ilst", *items)))
