"""Two real WebRTC peers in one process: what arrives, in which codec, how well in step."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from media_samples import flash_and_beep, jpeg, tone
from webrtc_client import Client, closing

from e3rg.config import GatewayConfig
from e3rg.errors import E3RGError
from e3rg.gateway.webrtc.incoming import Camera, Microphone
from e3rg.gateway.webrtc.offer import read_offer
from e3rg.gateway.webrtc.peer import Peer
from e3rg.gateway.webrtc.picture import PictureTrack, Rest
from e3rg.gateway.webrtc.playout import Playout
from e3rg.gateway.webrtc.sound import SoundTrack
from e3rg.gateway.webrtc.transport import WebRtcTransport
from e3rg.media.types import Pcm, Still
from e3rg.turn.events import AudioChunk, VideoFrames


@dataclass
class Served:
    peer: Peer
    transport: WebRtcTransport
    picture: PictureTrack | None


@asynccontextmanager
async def connected(client: Client) -> AsyncIterator[Served]:
    offer = read_offer(await client.offer())
    sound = SoundTrack()
    picture = PictureTrack(Rest.of(Still(jpeg(512)))) if offer.picture else None
    playout = Playout(sound, picture)
    peer = Peer(GatewayConfig(), sound, picture)

    async def pump() -> None:
        await peer.connected.wait()
        await playout.run()

    pumping = asyncio.create_task(pump())
    async with closing(client):
        try:
            await client.accept(await peer.answer(offer))
            transport = WebRtcTransport(await peer.channel, playout, peer.end, lambda name: None)
            yield Served(peer, transport, picture)
        finally:
            await peer.close()
            pumping.cancel()


def starts(times: list[float]) -> list[float]:
    return [at for i, at in enumerate(times) if not i or at - times[i - 1] > 0.5]


@pytest.mark.parametrize("codec", ["", "VP8"])
async def test_flash_and_beep_arrive_in_step(codec: str) -> None:
    client = Client(codec=codec)
    async with connected(client) as served:
        assert served.picture is not None
        assert served.picture.passthrough is (codec == "")
        await client.until(lambda: client.pictures)
        await asyncio.sleep(0.5)
        await served.transport.begin("r", "i", video=True, audio_format="audio/pcm")
        for first in range(0, 60, 12):
            packets, pcm = flash_and_beep(first, 12)
            await served.transport.video(VideoFrames(tuple(packets), pcm, first))
        await served.transport.finish()
        assert (await client.event("output_audio_buffer.started"))["response_id"] == "r"
        await client.event("output_audio_buffer.stopped")
        assert served.transport.heard_s == pytest.approx(60 / 25)
        await client.until(lambda: client.audio.reports and client.video.reports)
        await asyncio.sleep(0.5)
    loud = np.flatnonzero(np.abs(client.heard().astype(int)) > 3000) / client.rate
    beeps = starts(list(loud))
    flashes = starts(
        [
            float(picture.pts * picture.time_base)
            for picture in client.pictures
            if picture.pts is not None
            and picture.time_base is not None
            and picture.to_ndarray(format="gray")[256, 256] > 200
        ]
    )
    assert len(beeps) == len(flashes) == 3
    skews = [
        client.video.wall(flash) - client.audio.wall(beep)
        for flash, beep in zip(flashes, beeps, strict=True)
    ]
    assert max(map(abs, skews)) <= 0.040, skews


async def test_a_peer_that_lost_the_picture_gets_a_key_frame_soon() -> None:
    client = Client()
    async with connected(client) as served:
        await client.until(lambda: client.pictures)
        await served.transport.begin("r", "i", video=True, audio_format="audio/pcm")
        packets, pcm = flash_and_beep(0, 100)
        await served.transport.video(VideoFrames(tuple(packets), pcm, 0))
        await served.transport.finish()
        await client.event("output_audio_buffer.started")
        await asyncio.sleep(0.8)
        receiver: Any = next(r for r in client.pc.getReceivers() if r.track.kind == "video")
        ssrc = next(iter(receiver.getSynchronizationSources())).source
        count = len(client.pictures)
        await receiver._send_rtcp_pli(ssrc)
        await client.until(lambda: any(p.key_frame for p in client.pictures[count:]), 1.5)
        assert served.transport.heard_s < 3.5  # it did not wait for the avatar's next one
        served.transport.clear()


class Voice(MediaStreamTrack):
    """Sends a tone."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._sent = 0

    async def recv(self) -> av.AudioFrame:
        await asyncio.sleep(0.02)
        samples = np.frombuffer(tone(0.02, 48_000).data, "<i2").reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        frame.sample_rate, frame.pts = 48_000, self._sent
        frame.time_base = Fraction(1, 48_000)
        self._sent += 960
        return frame


class Film(MediaStreamTrack):
    """Sends grey pictures at 25 frames a second."""

    kind = "video"

    def __init__(self) -> None:
        super().__init__()
        self._sent = 0

    async def recv(self) -> av.VideoFrame:
        await asyncio.sleep(0.04)
        frame = av.VideoFrame.from_ndarray(np.full((240, 320, 3), 120, np.uint8), format="rgb24")
        frame.pts, frame.time_base = self._sent * 3600, Fraction(1, 90_000)
        self._sent += 1
        return frame


async def test_the_speaker_is_heard_and_seen() -> None:
    client = Client(Voice(), camera=Film())
    heard: list[Pcm] = []
    seen: list[bytes] = []

    async def hear(pcm: Pcm) -> None:
        heard.append(pcm)

    async def look(still: bytes) -> None:
        seen.append(still)

    async with connected(client) as served:
        assert served.peer.microphone is not None and served.peer.camera is not None
        microphone = asyncio.create_task(Microphone(served.peer.microphone, hear).run())
        camera = asyncio.create_task(Camera(served.peer.camera, look).run())
        await client.until(lambda: len(seen) >= 3 and len(heard) > 60)
    await asyncio.wait_for(asyncio.gather(microphone, camera), 5)  # the tracks end with the peer
    assert {pcm.sample_rate for pcm in heard} == {16_000}
    samples = np.frombuffer(b"".join(pcm.data for pcm in heard), "<i2").astype(float)[8000:]
    spectrum = np.abs(np.fft.rfft(samples))
    assert spectrum.argmax() * 16_000 / len(samples) == pytest.approx(1000, abs=5)
    assert len(seen) <= 6
    with av.open(io.BytesIO(seen[-1])) as picture:
        (frame,) = picture.decode(video=0)
        assert (frame.width, frame.height) == (320, 240)
        assert abs(float(frame.to_ndarray(format="gray").mean()) - 120) < 6


class Burst(MediaStreamTrack):
    """Some seconds of sound within half a second; where packets are lost, their time passes."""

    kind = "audio"

    def __init__(self, lost_s: float) -> None:
        super().__init__()
        self._step = 960 + int(48_000 * lost_s)
        self._sent = 0

    async def recv(self) -> av.AudioFrame:
        await asyncio.sleep(0.002)
        if self._sent == 250:
            raise MediaStreamError
        samples = np.frombuffer(tone(0.02, 48_000).data, "<i2").reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        frame.sample_rate, frame.pts = 48_000, self._sent * self._step
        self._sent += 1
        return frame


@pytest.mark.parametrize("lost_s", [0.0, 0.5])
async def test_sound_that_is_faster_than_time_is_cut_to_time(lost_s: float) -> None:
    heard: list[Pcm] = []

    async def hear(pcm: Pcm) -> None:
        heard.append(pcm)

    start = asyncio.get_running_loop().time()
    await Microphone(Burst(lost_s), hear).run()
    passed = asyncio.get_running_loop().time() - start
    assert 2.4 < sum(pcm.seconds for pcm in heard) <= passed + 3.1


async def test_other_channels_are_closed_and_floods_end_the_call() -> None:
    client = Client(video=False)
    async with connected(client) as served:
        other = client.pc.createDataChannel("files")
        await client.until(lambda: other.readyState == "closed", 10)
        assert not served.peer.ended.is_set()
        for _ in range(300):  # nobody takes them here
            client.send("input_audio_buffer.clear")
        await client.until(served.peer.ended.is_set, 10)
        assert "faster" in served.peer.reason


async def test_an_event_that_the_peer_cannot_take_is_told() -> None:
    client = Client(video=False)
    async with connected(client) as served:
        await served.transport.send({"type": "conversation.item.retrieved", "x": "a" * 400_000})
        error = (await client.event("error"))["error"]
        assert error["code"] == "event_too_large"


async def test_sound_alone_is_played_for_a_peer_without_video() -> None:
    client = Client(video=False)
    async with connected(client) as served:
        await served.transport.begin("r", "i", video=False, audio_format="audio/pcm")
        await served.transport.audio(AudioChunk("hm", tone(0.4), 0, ()))
        await served.transport.finish()
        await client.event("output_audio_buffer.stopped")
        await asyncio.sleep(0.3)
    assert np.abs(client.heard().astype(int)).max() > 5000


OFFER = """v=0
o=- 1 1 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0 1
m=audio 9 UDP/TLS/RTP/SAVPF 111
c=IN IP4 0.0.0.0
a=rtcp-mux
a=ice-ufrag:abcd
a=ice-pwd:abcdefghijklmnopqrstuvwx
a=fingerprint:sha-256 00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF
a=setup:actpass
a=mid:0
a=sendrecv
a=rtpmap:111 opus/48000/2
a=candidate:1 1 udp 2122260223 0b5a6c0e-2f6e-4f6c-8e0b-0d8a6a2f7c11.local 54321 typ host
a=candidate:2 1 tcp 1518280447 192.0.2.9 9 typ host tcptype active
a=candidate:3 1 udp 1686052607 203.0.113.7 40000 typ srflx raddr 0.0.0.0 rport 0
a=end-of-candidates
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=ice-ufrag:abcd
a=ice-pwd:abcdefghijklmnopqrstuvwx
a=fingerprint:sha-256 00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF
a=setup:actpass
a=mid:1
a=sctp-port:5000
"""  # noqa: E501


def test_an_offer_is_read_and_useless_candidates_go() -> None:
    offer = read_offer(OFFER)
    assert (offer.picture, offer.camera) == (False, False)
    candidates = [line for line in offer.sdp.splitlines() if "candidate" in line]
    assert candidates == [line for line in OFFER.splitlines() if line.startswith("a=candidate:3")]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (OFFER, "hello", "invalid_sdp"),
        (OFFER, "", "invalid_sdp"),
        (OFFER, "v=0\r\n" + "a=x\r\n" * 20_000, "sdp_too_large"),
        ("m=audio 9 UDP/TLS/RTP/SAVPF 111", "m=video 9 UDP/TLS/RTP/SAVPF 111", "invalid_sdp"),
        (OFFER[OFFER.index("m=application") :], "", "invalid_sdp"),
        ("a=group:BUNDLE 0 1", "a=group:BUNDLE 0", "invalid_sdp"),
        ("a=group:BUNDLE 0 1", "", "invalid_sdp"),
        ("a=mid:1", "a=mid:0", "invalid_sdp"),
        ("opus/48000/2", "speex/16000", "unsupported_codec"),
        ("a=ice-pwd:abcdefghijklmnopqrstuvwx\n", "", "invalid_sdp"),
        ("m=audio 9", "m=audio nine", "invalid_sdp"),
        ("a=rtpmap:111 opus", "a=rtpmap:x opus", "invalid_sdp"),
    ],
)
def test_offers_that_cannot_be_taken(old: str, new: str, code: str) -> None:
    with pytest.raises(E3RGError) as refused:
        read_offer(OFFER.replace(old, new))
    assert (refused.value.code, refused.value.param) == (code, "sdp")
