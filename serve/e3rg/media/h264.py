"""H.264 as the container wants it: Annex B taken apart, parameter sets found."""

from __future__ import annotations

from collections.abc import Iterable

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
