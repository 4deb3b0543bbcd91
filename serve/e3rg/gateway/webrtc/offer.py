"""A peer's SDP offer (RFC 8866, RFC 9429), checked before anything is made for it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from aiortc import sdp

from e3rg.errors import E3RGError

MAX_BYTES = 65_536
_MAX_CANDIDATES = 32
_HASHES = {"sha-256", "sha-384", "sha-512"}


@dataclass(frozen=True, slots=True)
class Offer:
    """An offer that can be answered.

    Attributes:
        sdp: the description, with only such candidates as can be used.
        picture: the peer takes video.
        camera: the peer sends video.
    """

    sdp: str
    picture: bool
    camera: bool


def read_offer(text: str) -> Offer:
    """Check an offer.

    Raises:
        E3RGError: ``invalid_sdp``, ``sdp_too_large`` (413) or ``unsupported_codec``; param ``sdp``.
    """
    if len(text) > MAX_BYTES or len(text.encode()) > MAX_BYTES:
        raise E3RGError(
            "sdp_too_large",
            f"sdp is longer than {MAX_BYTES} bytes; send the offer as the browser made it",
            param="sdp",
            status=413,
        )
    if not text.lstrip().startswith("v=0"):
        raise _invalid("sdp must be an SDP offer, which starts with v=0")
    usable = _usable(text)
    try:
        description = sdp.SessionDescription.parse(usable)
    except Exception as error:  # the parser raises whatever its steps raise
        raise _invalid("sdp cannot be parsed; send the browser's offer unchanged") from error
    audio = [media for media in description.media if media.kind == "audio"]
    video = [media for media in description.media if media.kind == "video"]
    data = [media for media in description.media if media.kind == "application"]
    if len(audio) != 1 or len(video) > 1 or len(description.media) > 3:
        raise _invalid(
            "sdp must offer one audio section, at most one video section and one data channel"
        )
    if len(data) != 1 or not (data[0].sctp_port or data[0].sctpmap):
        raise _invalid('sdp must offer a data channel; create "oai-events" before the offer')
    _check_bundle(description)
    if not any(codec.mimeType.lower() == "audio/opus" for codec in audio[0].rtp.codecs):
        raise E3RGError(
            "unsupported_codec", "sdp offers no Opus; sound is sent as Opus here", param="sdp"
        )
    directions = {media.direction or "sendrecv" for media in video if media.port}
    return Offer(
        sdp=usable,
        picture=bool(directions & {"sendrecv", "recvonly"}),
        camera=bool(directions & {"sendrecv", "sendonly"}),
    )


def _check_bundle(description: sdp.SessionDescription) -> None:
    mids = [media.rtp.muxId for media in description.media]
    bundles = [group.items for group in description.group if group.semantic == "BUNDLE"]
    if not all(mids) or len(set(mids)) < len(mids) or bundles != [mids]:
        raise _invalid("sdp must bundle all its sections (a=group:BUNDLE), as browsers do")
    for media in description.media:
        if not (media.ice and media.ice.usernameFragment and media.ice.password):
            raise _invalid("sdp lacks a=ice-ufrag or a=ice-pwd")
        prints = media.dtls.fingerprints if media.dtls is not None else []
        if not any(each.algorithm.lower() in _HASHES for each in prints):
            raise _invalid("sdp lacks a=fingerprint with sha-256, sha-384 or sha-512")


def _usable(text: str) -> str:
    """Without candidates that cannot be used, and without the word that no more will come.

    Names (mDNS, ``.local``) are not resolved: a server that listens to multicast for strangers is
    worse than one that lets the browser come to it, which ICE then learns as peer-reflexive.
    """
    kept: list[str] = []
    candidates = 0
    for line in text.splitlines():
        if line.startswith("a=end-of-candidates"):
            continue
        if line.startswith("a=candidate:"):
            candidates += 1
            if candidates > _MAX_CANDIDATES or not _reachable(line.split()):
                continue
        kept.append(line)
    return "\r\n".join(kept) + "\r\n"


def _reachable(fields: list[str]) -> bool:
    if len(fields) < 8 or fields[2].lower() != "udp" or fields[7] not in {"host", "srflx", "relay"}:
        return False
    try:
        address = ipaddress.ip_address(fields[4])
    except ValueError:
        return False
    return not (address.is_unspecified or address.is_multicast)


def _invalid(message: str) -> E3RGError:
    return E3RGError("invalid_sdp", message, param="sdp")
