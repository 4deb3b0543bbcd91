"""The peer connection of one call: negotiated from an offer, and taken down again."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCDataChannel,
    RTCIceServer,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
    sdp,
)
from aiortc.exceptions import OperationError
from aiortc.rtcconfiguration import RTCBundlePolicy, RTCIceTransportPolicy

from e3rg.config import GatewayConfig
from e3rg.errors import E3RGError
from e3rg.gateway.webrtc.offer import Offer
from e3rg.gateway.webrtc.picture import PictureTrack
from e3rg.gateway.webrtc.sound import SoundTrack

log = logging.getLogger(__name__)

CHANNEL = "oai-events"
_GATHER_S = 10.0
_CLOSE_S = 10.0
_MESSAGES = 256
_FLOOD_BYTES_S = 1_500_000  # a camera at 1080p takes about a third of it
_FLOOD_S = 5


class Peer:
    """One WebRTC connection.

    Args:
        config: names the STUN and TURN servers.
        sound: what the peer hears.
        picture: what it sees, or None.

    Attributes:
        messages: what came over the data channel.
        channel: done when the data channel is open.
        ended: set when the connection is over; see ``reason``.
        microphone: the peer's sound, once an offer was answered.
        camera: the peer's picture.
    """

    def __init__(
        self, config: GatewayConfig, sound: SoundTrack, picture: PictureTrack | None
    ) -> None:
        self.messages: asyncio.Queue[str | bytes] = asyncio.Queue(_MESSAGES)
        self.channel: asyncio.Future[RTCDataChannel] = asyncio.get_running_loop().create_future()
        self.connected = asyncio.Event()
        self.ended = asyncio.Event()
        self.reason = ""
        self.microphone: MediaStreamTrack | None = None
        self.camera: MediaStreamTrack | None = None
        self._sound = sound
        self._picture = picture
        self._pc = RTCPeerConnection(_configuration(config))
        self._pc.on("track", self._on_track)
        self._pc.on("datachannel", self._on_channel)
        self._pc.on("connectionstatechange", self._on_state)

    async def answer(self, offer: Offer) -> str:
        """Negotiate; the answer holds all candidates (no trickling).

        Raises:
            E3RGError: ``unsupported_codec`` or ``invalid_sdp``; the peer must then be closed.
        """
        self._pc.addTransceiver(self._sound, "sendrecv")
        if self._picture is not None:
            both = "sendrecv" if offer.camera else "sendonly"
            video = self._pc.addTransceiver(self._picture, both)
            capabilities = RTCRtpSender.getCapabilities("video").codecs
            video.setCodecPreferences(sorted(capabilities, key=_preference))
            _ask_on_loss(video.sender, self._picture)
        try:
            async with asyncio.timeout(_GATHER_S):
                await self._pc.setRemoteDescription(RTCSessionDescription(offer.sdp, "offer"))
                await self._pc.setLocalDescription(await self._pc.createAnswer())
        except OperationError as error:
            raise E3RGError(
                "unsupported_codec",
                "sdp has a section whose codecs are all unknown; offer Opus, and H.264 or VP8",
                param="sdp",
            ) from error
        except TimeoutError as error:
            raise E3RGError(
                "ice_timeout", "addresses could not be gathered in time; try again", status=503
            ) from error
        except Exception as error:  # whatever a hostile description brings about in the library
            log.info("offer not taken: %s: %s", type(error).__name__, error)
            raise E3RGError(
                "invalid_sdp",
                "sdp cannot be answered; send the browser's offer unchanged",
                param="sdp",
            ) from error
        text: str = self._pc.localDescription.sdp
        if self._picture is not None:
            self._picture.passthrough = _video_codec(text) == "h264"
        return text

    def end(self, reason: str) -> None:
        """The connection is to end; the first reason counts."""
        self.reason = self.reason or reason
        self.ended.set()

    async def guard(self) -> None:
        """End the connection if more comes in than any camera and microphone send."""
        last, above = 0, 0
        while True:
            await asyncio.sleep(1)
            stats = await self._pc.getStats()
            received = sum(
                {
                    each.id: each.bytesReceived
                    for each in stats.values()
                    if each.type == "transport"
                }.values()
            )
            above = above + 1 if received - last > _FLOOD_BYTES_S else 0
            last = received
            if above >= _FLOOD_S:
                self.end("the peer sends too much")

    async def close(self) -> None:
        """Release sockets, tasks and threads."""
        self.end("closed")
        self._sound.stop()
        if self._picture is not None:
            self._picture.stop()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._pc.close()
        except Exception as error:  # a connection that cannot even be closed must not end others
            log.warning("peer not closed properly: %s: %s", type(error).__name__, error)
        if not self.channel.done():
            self.channel.cancel()

    def _on_track(self, track: MediaStreamTrack) -> None:
        if track.kind == "audio":
            self.microphone = track
        else:
            self.camera = track

    def _on_channel(self, channel: RTCDataChannel) -> None:
        if channel.label != CHANNEL or self.channel.done():
            channel.close()
            return
        channel.on("message", self._on_message)
        channel.on("close", lambda: self.end("the peer closed the data channel"))
        self.channel.set_result(channel)

    def _on_message(self, message: str | bytes) -> None:
        if self.messages.full():
            self.end("the peer sends events faster than they can be taken")
            return
        self.messages.put_nowait(message)

    def _on_state(self) -> None:
        state = self._pc.connectionState
        if state == "connected":
            self.connected.set()
        elif state in {"failed", "closed"}:
            self.end(f"the connection {state}")


def _configuration(config: GatewayConfig) -> RTCConfiguration:
    servers = [
        RTCIceServer(urls=list(server.urls), username=server.username, credential=server.credential)
        for server in config.ice_servers
    ]
    return RTCConfiguration(
        iceServers=servers,  # an empty list, not None: the library's default is a public server
        bundlePolicy=RTCBundlePolicy.MAX_BUNDLE,
        iceTransportPolicy=(
            RTCIceTransportPolicy.RELAY if config.ice_relay_only else RTCIceTransportPolicy.ALL
        ),
    )


def _preference(codec: Any) -> int:
    """H.264 of the avatar's profile first, since it passes through; VP8 has to be encoded."""
    level = codec.parameters.get("profile-level-id", "")
    return 0 if level.startswith("42e0") else 1 if level else 2


def _ask_on_loss(sender: Any, picture: PictureTrack) -> None:
    """Tell the track when the peer asks for a key frame, for which the library has no event."""
    ask = sender._send_keyframe  # for encoders of its own (VP8)

    def asked() -> None:
        picture.key_frame()
        ask()

    sender._send_keyframe = asked


def _video_codec(answer: str) -> str:
    for media in sdp.SessionDescription.parse(answer).media:
        if media.kind == "video" and media.rtp.codecs:
            return str(media.rtp.codecs[0].name).lower()
    return ""
