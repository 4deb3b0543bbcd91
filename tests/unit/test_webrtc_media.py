"""What a WebRTC peer is sent: one clock for sound and picture, and nothing when one is late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import av
import numpy as np
import pytest
from media_samples import RATE, flash_and_beep, jpeg, tone

from e3rg.gateway.webrtc.picture import PictureTrack, Rest
from e3rg.gateway.webrtc.playout import BUFFER_S, Playout
from e3rg.gateway.webrtc.reply import CELL_BYTES, Reply
from e3rg.gateway.webrtc.sound import SoundTrack
from e3rg.media.h264 import nal_units
from e3rg.media.types import Pcm, Still
from e3rg.turn.events import AudioChunk, VideoFrames

REST = Rest.of(Still(jpeg(512)))
IDR = 5


class Sent:
    """A playout with what its tracks handed over, as (time stamp in seconds, data)."""

    def __init__(self, *, video: bool) -> None:
        self.sound: list[tuple[float, bytes]] = []
        self.pictures: list[tuple[float, bytes]] = []
        self.changes: list[tuple[str, str]] = []
        self.track = SoundTrack()
        self.picture = PictureTrack(REST) if video else None
        self.playout = Playout(self.track, self.picture)
        self.playout.changed = lambda *change: self.changes.append(change)

    async def until(self, change: str) -> None:
        async with asyncio.timeout(30):
            while change not in dict(self.changes):
                await asyncio.sleep(0.005)

    def loudness(self) -> list[tuple[float, float]]:
        """Of each 20 ms, decoded: time stamp and peak."""
        decoder = av.CodecContext.create("libopus", "r")
        peaks = []
        for at, data in self.sound:
            (frame,) = decoder.decode(av.Packet(data))  # type: ignore[attr-defined]
            peaks.append((at, float(np.abs(frame.to_ndarray()).max())))
        return peaks

    def keys(self) -> list[float]:
        """Times of the key frames."""
        return [at for at, data in self.pictures if is_key(data)]


def is_key(data: bytes) -> bool:
    return any(unit[0] & 0x1F == IDR for unit in nal_units(data))


@asynccontextmanager
async def playing(*, video: bool = True) -> AsyncIterator[Sent]:
    sent = Sent(video=video)

    async def collect(track: Any, kept: list[tuple[float, bytes]]) -> None:
        while True:
            packet = await track.recv()
            kept.append((float(packet.pts * packet.time_base), bytes(packet)))

    tasks = [asyncio.create_task(sent.playout.run())]
    tasks.append(asyncio.create_task(collect(sent.track, sent.sound)))
    if sent.picture is not None:
        tasks.append(asyncio.create_task(collect(sent.picture, sent.pictures)))
    try:
        yield sent
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def chunk(pcm: Pcm) -> AudioChunk:
    return AudioChunk("words", pcm, 0, ())


def frames(first: int, count: int) -> VideoFrames:
    packets, pcm = flash_and_beep(first, count)
    return VideoFrames(tuple(packets), pcm, first)


@pytest.mark.parametrize("rate", [24_000, 22_050, 16_000])
def test_cells_hold_exactly_the_reply(rate: int) -> None:
    reply = Reply("r", video=False)
    sound = tone(2.0, rate).data
    for at in range(0, len(sound), 2 * rate // 25 * 3):
        reply.speak(Pcm(sound[at : at + 2 * rate // 25 * 3], rate))
    reply.finish()
    played = b""
    while (cell := reply.next()) is not None:
        assert len(cell.sound) == CELL_BYTES
        played += cell.sound
    assert reply.over
    assert len(played) == 2 * 48_000 * 2
    # A pure tone stays one: pieces that were resampled apart would click where they meet.
    samples = np.frombuffer(played, "<i2").astype(float)[4800:-4800]
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    peak = int(spectrum.argmax())
    rest = np.delete(spectrum, range(peak - 40, peak + 41))
    assert peak * 48_000 / len(samples) == pytest.approx(1000, abs=2)
    assert 20 * np.log10(spectrum[peak] / rest.max()) > 55


def test_neither_sound_nor_picture_goes_on_alone() -> None:
    reply = Reply("r", video=True)
    show = frames(0, 10)
    reply.show(VideoFrames(show.packets[:4], Pcm(show.audio.data, RATE), 0))
    cells = [reply.next() for _ in range(6)]
    assert [cell is not None for cell in cells] == [True] * 4 + [False] * 2
    # After a stall some frames are waited for, so that it does not stutter on.
    reply.show(VideoFrames(show.packets[4:6], Pcm(b"", RATE), 4))
    assert reply.next() is None
    reply.show(VideoFrames(show.packets[6:], Pcm(b"", RATE), 6))
    assert reply.next() is not None


def test_sound_goes_on_where_the_pictures_end() -> None:
    reply = Reply("r", video=True)
    show = frames(0, 25)
    reply.speak(show.audio)
    reply.show(VideoFrames(show.packets[:5], Pcm(show.audio.data[: 5 * 1920], RATE), 0))
    reply.without_pictures()
    reply.speak(tone(1.0))
    reply.finish()
    cells = []
    while (cell := reply.next()) is not None:
        cells.append(cell)
    assert len(cells) == 50
    assert [cell.packet is not None for cell in cells] == [True] * 5 + [False] * 45


async def test_one_clock_for_both_tracks() -> None:
    async with playing() as sent:
        await asyncio.sleep(0.3)
        sent.playout.begin("r", video=True)
        for first in range(0, 55, 11):
            await sent.playout.show(frames(first, 11))
        sent.playout.finish()
        await sent.until("stopped")
        await asyncio.sleep(0.5)
    assert sent.changes == [("started", "r"), ("stopped", "r")]
    assert sent.playout.heard_s == pytest.approx(55 / 25)
    stamps = [at for at, _ in sent.sound]
    assert np.allclose(np.diff(stamps), 0.02)
    decoder: Any = av.CodecContext.create("h264", "r")
    flashes = []
    for at, data in sent.pictures:
        for picture in decoder.decode(av.Packet(data)):
            if picture.to_ndarray(format="gray")[256, 256] > 220:
                flashes.append(at)
    beeps = [at for at, peak in sent.loudness() if peak > 3000]
    starts = [at for i, at in enumerate(beeps) if not i or at - beeps[i - 1] > 0.5]
    assert len(flashes) == 3 and len(starts) == 3
    assert np.abs(np.subtract(flashes, starts)).max() <= 0.02


async def test_clear_is_silence_at_once_and_a_soft_way_to_the_still() -> None:
    async with playing() as sent:
        sent.playout.begin("r", video=True)
        await sent.playout.show(VideoFrames(frames(1, 24).packets * 3, tone(24 * 3 / 25), 1))
        await sent.until("started")
        await asyncio.sleep(0.5)
        sent.playout.clear()
        heard, count = sent.playout.heard_s, len(sent.sound)
        await sent.playout.show(frames(0, 5))  # what still comes of it is not played
        await asyncio.sleep(1.0)
        assert sent.playout.heard_s == heard
    assert sent.changes == [("started", "r"), ("cleared", "r")]
    loud = [peak > 300 for _, peak in sent.loudness()]
    assert sum(loud) == pytest.approx(heard / 0.02, abs=1.5)
    # Opus rings on into the next frame; what comes after that is silence.
    assert any(loud[: count + 1]) and not any(loud[count + 2 :])
    # From black to the still in steps.
    decoder: Any = av.CodecContext.create("h264", "r")
    means = [
        (at, float(picture.to_ndarray(format="gray").mean()))
        for at, data in sent.pictures
        for picture in decoder.decode(av.Packet(data))
    ]
    black = max(at for at, mean in means if mean < 20)
    rising = [mean for at, mean in means if at > black]
    still = float(REST.picture[:512].mean())
    assert rising[3:] and all(a <= b + 1 for a, b in pairwise(rising))
    assert rising[-1] == pytest.approx(still, abs=8)
    assert sum(mean < 0.9 * rising[-1] for mean in rising) >= 2


async def test_an_underrun_stalls_both() -> None:
    async with playing() as sent:
        sent.playout.begin("r", video=True)
        await sent.playout.show(VideoFrames(frames(1, 10).packets, tone(10 / 25), 1))
        await asyncio.sleep(0.9)
        shown = len(sent.pictures)
        heard = sent.playout.heard_s
        assert heard == pytest.approx(10 / 25, abs=0.05)  # the resampler may hold a cell back
        await sent.playout.show(VideoFrames(frames(1, 10).packets, tone(10 / 25), 11))
        sent.playout.finish()
        await sent.until("stopped")
        await asyncio.sleep(0.1)
    assert sent.playout.heard_s == pytest.approx(20 / 25)
    loud = [at for at, peak in sent.loudness() if peak > 3000]
    gap = int(np.argmax(np.diff(loud)))
    assert np.diff(loud)[gap] > 0.3
    # The picture of the cell that came late has the time stamp of its sound.
    late = [at for at, _ in sent.pictures if at > loud[gap] + 0.1]
    assert late[0] == pytest.approx(loud[gap + 1], abs=0.021)
    assert shown >= round(heard * 25)


async def test_a_lost_picture_is_repaired_between_the_avatars_key_frames() -> None:
    async with playing() as sent:
        assert sent.picture is not None
        sent.playout.begin("r", video=True)
        await sent.playout.show(frames(0, 75))
        await sent.until("started")
        await asyncio.sleep(1.0)
        before = len(sent.pictures)
        sent.picture.key_frame()
        await asyncio.sleep(0.5)
        keys = [is_key(data) for _, data in sent.pictures[before:]]
        assert any(keys[:3]) and sum(keys) == 1
        # A decoder that joins there shows what everybody sees.
        decoder: Any = av.CodecContext.create("h264", "r")
        joined = [
            picture
            for _, data in sent.pictures[before + keys.index(True) :]
            for picture in decoder.decode(av.Packet(data))
        ]
        assert len(joined) >= 8
        assert all(picture.to_ndarray(format="gray").mean() < 30 for picture in joined[:5])
        # Requests in a row cost one key frame.
        for _ in range(10):
            sent.picture.key_frame()
        sent.playout.finish()
        await sent.until("stopped")


async def test_rest_is_cheap_and_never_black() -> None:
    async with playing() as sent:
        await asyncio.sleep(2.5)
    assert 4 <= len(sent.pictures) <= 8
    assert is_key(sent.pictures[0][1])
    assert sent.pictures[0][0] == 0.0
    seconds = sent.pictures[-1][0] - sent.pictures[0][0]
    assert sum(len(data) for _, data in sent.pictures) * 8 / seconds < 300_000


async def test_the_buffer_is_bounded_and_clear_frees_who_waits() -> None:
    sent = Sent(video=False)  # nothing plays
    sent.playout.begin("r", video=False)
    await sent.playout.speak(chunk(tone(BUFFER_S + 1)))
    waiting = asyncio.create_task(sent.playout.speak(chunk(tone(1))))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    sent.playout.clear()
    await asyncio.wait_for(waiting, 1)
    assert sent.playout.heard_s == 0


async def test_two_replies_are_played_one_after_the_other() -> None:
    async with playing(video=False) as sent:
        for name in ("a", "b"):
            sent.playout.begin(name, video=False)
            await sent.playout.speak(chunk(tone(0.3)))
            sent.playout.finish()
        assert sent.playout.heard_s == 0  # of the newest
        async with asyncio.timeout(10):
            while len(sent.changes) < 4:
                await asyncio.sleep(0.01)
    assert sent.changes == [("started", "a"), ("stopped", "a"), ("started", "b"), ("stopped", "b")]
    assert sent.playout.heard_s == pytest.approx(0.32)
