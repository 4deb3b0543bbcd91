"""A WebRTC peer made of aiortc that calls the gateway, and measures what it hears and sees."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError
from aiortc.rtcconfiguration import RTCBundlePolicy
from aiortc.rtp import RtcpSrPacket
from av import AudioFrame, VideoFrame


@dataclass
class Sender:
    """One incoming track with the RTP clock and what ties it to the sender's wall clock."""

    rate: int
    first: int | None = None
    reports: list[tuple[float, int]] = field(default_factory=list)

    def watch(self, receiver: Any) -> None:
        take, report = receiver._handle_rtp_packet, receiver._handle_rtcp_packet

        async def on_rtp(packet: Any, arrival_time_ms: int) -> None:
            self.first = packet.timestamp if self.first is None else self.first
            await take(packet, arrival_time_ms)

        async def on_rtcp(packet: Any) -> None:
            if isinstance(packet, RtcpSrPacket) and packet.sender_info.ntp_timestamp:
                info = packet.sender_info
                self.reports.append((info.ntp_timestamp / 2**32, info.rtp_timestamp))
            await report(packet)

        receiver._handle_rtp_packet = on_rtp
        receiver._handle_rtcp_packet = on_rtcp

    def wall(self, seconds: float) -> float:
        """The sender's wall clock at a time after the first packet, as a browser works it out."""
        assert self.first is not None and self.reports
        offsets = [ntp - ((stamp - self.first) % 2**32) / self.rate for ntp, stamp in self.reports]
        return statistics.median(offsets) + seconds


class Client:
    """One peer.

    Args:
        voice: a track to speak with, or None to send silence.
        video: receive video.
        camera: a track to be seen with.
        codec: the only video codec to offer.
    """

    def __init__(
        self,
        voice: MediaStreamTrack | None = None,
        *,
        video: bool = True,
        camera: MediaStreamTrack | None = None,
        codec: str = "",
        ice_servers: list[Any] | None = None,
        label: str = "oai-events",
    ) -> None:
        self.events: list[dict[str, Any]] = []
        self.sound: list[AudioFrame] = []
        self.pictures: list[VideoFrame] = []
        self.audio, self.video = Sender(48_000), Sender(90_000)
        self.tasks: list[asyncio.Task[None]] = []
        self.opened = asyncio.Event()
        self.pc = RTCPeerConnection(
            RTCConfiguration(iceServers=ice_servers or [], bundlePolicy=RTCBundlePolicy.MAX_BUNDLE)
        )
        self.pc.on("track", self._on_track)
        self.pc.addTransceiver(voice or "audio", "sendrecv" if voice else "recvonly")
        if video:
            both = self.pc.addTransceiver(camera or "video", "sendrecv" if camera else "recvonly")
            if codec:
                known = RTCRtpSender.getCapabilities("video").codecs
                both.setCodecPreferences([c for c in known if c.mimeType == f"video/{codec}"])
        self.channel = self.pc.createDataChannel(label)
        self.channel.on("message", lambda text: self.events.append(json.loads(text)))
        self.channel.on("open", self.opened.set)

    async def offer(self) -> str:
        await self.pc.setLocalDescription(await self.pc.createOffer())
        return str(self.pc.localDescription.sdp)

    async def accept(self, answer: str) -> None:
        await self.pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        async with asyncio.timeout(20):
            await self.opened.wait()

    def send(self, kind: str, **fields: Any) -> None:
        self.channel.send(json.dumps({"type": kind, **fields}))

    async def until(self, met: Callable[[], Any], seconds: float = 30) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not met():
                    await asyncio.sleep(0.01)
        except TimeoutError as error:
            raise AssertionError(f"not within {seconds} s; events: {self.kinds()}") from error

    async def event(self, kind: str, seconds: float = 30) -> dict[str, Any]:
        await self.until(lambda: kind in self.kinds(), seconds)
        return next(event for event in self.events if event["type"] == kind)

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def rate(self) -> int:
        return self.sound[0].sample_rate

    def heard(self) -> np.ndarray[Any, np.dtype[np.int16]]:
        """All sound since the first frame, one channel; lost frames are silence."""
        first = self.sound[0].pts or 0
        last = self.sound[-1]
        samples = np.zeros((last.pts or 0) - first + last.samples, np.int16)
        for frame in self.sound:
            at = (frame.pts or 0) - first
            samples[at : at + frame.samples] = frame.to_ndarray().reshape(-1)[::2]
        return samples

    async def close(self) -> None:
        await self.pc.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _on_track(self, track: MediaStreamTrack) -> None:
        audio = track.kind == "audio"
        receiver = next(r for r in self.pc.getReceivers() if r.track is track)
        (self.audio if audio else self.video).watch(receiver)
        kept: list[Any] = self.sound if audio else self.pictures
        self.tasks.append(asyncio.create_task(_collect(track, kept)))


async def _collect(track: MediaStreamTrack, kept: list[Any]) -> None:
    while True:
        try:
            kept.append(await track.recv())
        except MediaStreamError:
            return


@asynccontextmanager
async def closing(client: Client) -> AsyncIterator[Client]:
    try:
        yield client
    finally:
        await client.close()
