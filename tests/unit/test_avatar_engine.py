"""The engine: whole segments, joinable packets, prompt cancellation, bounded memory."""

from __future__ import annotations

import asyncio
import gc
import threading

import cv2
import numpy as np
import psutil
import pytest
from avatar_kit import (
    FPS,
    RATE,
    Portraits,
    decode,
    drawn_rig,
    frames_of,
    hum,
    load,
    png,
    portrait_bytes,
    request,
    silence,
    spoken,
)

from e3rg.config import ConfigError
from e3rg.emotions.types import Delivery, Expression
from e3rg.errors import E3RGError
from e3rg.identities.types import PortraitRef
from e3rg.media.types import Pcm
from e3rg.stages.avatar.blendshape import BlendshapeAvatar
from e3rg.stages.avatar.engine import RenderRequest, VideoChunk


async def collect(avatar: BlendshapeAvatar, wanted: RenderRequest) -> list[VideoChunk]:
    return [chunk async for chunk in avatar.render(wanted)]


async def test_a_segment_has_exactly_its_audios_frames() -> None:
    portraits = Portraits.of(portrait_bytes())
    avatar = load(portraits)
    for frames in (0, 1, 3, 4, 11, 27):
        await check_segment(avatar, portraits.refs[0], frames)
    avatar.close()
    avatar.close()


async def check_segment(avatar: BlendshapeAvatar, ref: PortraitRef, frames: int) -> None:
    wanted = request(hum(frames), portrait=ref, first_frame=100)
    chunks = await collect(avatar, wanted)
    packets = [packet for chunk in chunks for packet in chunk.packets]
    assert len(packets) == frames == len(decode(packets))
    assert [p.keyframe for p in packets] == [True, *[False] * (frames - 1)][:frames]
    at = 100
    for chunk in chunks:
        assert chunk.first_frame == at
        assert len(chunk.packets) <= 10
        at += len(chunk.packets)


async def test_segments_join_to_one_stream() -> None:
    portraits = Portraits.of(portrait_bytes())
    avatar = load(portraits)
    ref = portraits.refs[0]
    first = request(hum(20), spoken("hɛlO"), portrait=ref)
    second = request(hum(15), spoken("maI"), portrait=ref, first_frame=20)
    chunks = await collect(avatar, first) + await collect(avatar, second)
    packets = [packet for chunk in chunks for packet in chunk.packets]
    shown = decode(packets)
    drawn = frames_of(drawn_rig(), first) + frames_of(drawn_rig(), second)
    assert len(shown) == len(drawn) == 35
    assert min(cv2.PSNR(a, b) for a, b in zip(shown, drawn, strict=True)) > 36
    for index, packet in enumerate(packets):
        kinds = {unit[0] & 0x1F for unit in packet.data.split(b"\0\0\1")[1:]}
        assert ({7, 8, 5} <= kinds) == (index in (0, 20))
    avatar.close()


async def test_closing_the_iterator_stops_the_work() -> None:
    portraits = Portraits.of(portrait_bytes())
    avatar = load(portraits)
    ref = portraits.refs[0]
    stream = avatar.render(request(hum(2500), portrait=ref))
    await anext(stream)
    await stream.aclose()
    # The one thread is free again at once: a short segment is not kept waiting by the long one.
    chunks = await collect(avatar, request(hum(3), portrait=ref))
    assert sum(len(chunk.packets) for chunk in chunks) == 3
    task = asyncio.create_task(collect(avatar, request(hum(2500), portrait=ref)))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(await collect(avatar, request(hum(3), portrait=ref))) >= 1
    avatar.close()


async def test_a_portrait_is_prepared_once_for_all_who_ask() -> None:
    portraits = Portraits.of(portrait_bytes())
    avatar = load(portraits, threads=2)
    wanted = request(hum(2), portrait=portraits.refs[0])
    await asyncio.gather(*(collect(avatar, wanted) for _ in range(4)))
    assert portraits.reads == 1
    avatar.close()


async def test_kept_portraits_are_bounded() -> None:
    portraits = Portraits.of(*(portrait_bytes(seed) for seed in range(3)))
    avatar = load(portraits, portraits_kept=2)
    for ref in (*portraits.refs, portraits.refs[2]):
        await avatar.still(ref, Delivery(Expression.HAPPY, 0.5))
    assert portraits.reads == 3
    assert len(avatar._rigs) == 2
    await avatar.still(portraits.refs[0], Delivery(Expression.HAPPY, 0.5))
    assert portraits.reads == 4
    avatar.close()


async def test_bad_portraits_and_audio_are_named_and_the_next_request_is_served() -> None:
    blank = png(np.full((300, 300, 3), 128, np.uint8))
    portraits = Portraits.of(blank, portrait_bytes())
    avatar = load(portraits)
    for ref, code in (
        (portraits.refs[0], "portrait_no_face"),
        (PortraitRef("x"), "unknown_portrait"),
    ):
        for _ in range(2):
            with pytest.raises(E3RGError) as caught:
                await collect(avatar, request(hum(2), portrait=ref))
            assert caught.value.code == code
    with pytest.raises(E3RGError) as caught:
        await collect(avatar, request(Pcm(bytes(2002), RATE), portrait=portraits.refs[1]))
    assert caught.value.code == "audio_not_whole_frames"
    assert len(avatar._rigs) == 0
    assert await collect(avatar, request(hum(2), portrait=portraits.refs[1]))
    avatar.close()


async def test_still_and_inspect() -> None:
    portraits = Portraits.of(portrait_bytes())
    avatar = load(portraits)
    neutral, happy = [
        (await avatar.still(portraits.refs[0], Delivery(e, 0.9))).jpeg
        for e in (Expression.NEUTRAL, Expression.HAPPY)
    ]
    image = cv2.imdecode(np.frombuffer(neutral, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    assert image.shape == (512, 512, 3)
    assert neutral != happy
    report = await avatar.inspect(portrait_bytes())
    assert (report.width, report.height) == (512, 512)
    with pytest.raises(E3RGError) as caught:
        await avatar.inspect(png(np.full((300, 300, 3), 128, np.uint8)))
    assert caught.value.code == "portrait_no_face"
    avatar.close()


@pytest.mark.parametrize("options", [{"threads": 0}, {"portraits_kept": "many"}, {"threads": True}])
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        load(Portraits.of(), **options)


async def test_memory_and_threads_stay_flat() -> None:
    portraits = Portraits.of(portrait_bytes())
    avatar = load(portraits)
    wanted = request(silence(8), portrait=portraits.refs[0])

    async def some(count: int) -> None:
        for n in range(count):
            if n % 3 == 0:
                stream = avatar.render(wanted)
                await anext(stream)
                await stream.aclose()
            else:
                await collect(avatar, wanted)

    await some(10)
    gc.collect()
    process = psutil.Process()
    memory, threads = process.memory_info().rss, threading.active_count()
    await some(30)
    gc.collect()
    assert threading.active_count() <= threads
    assert process.memory_info().rss - memory < 8_000_000
    avatar.close()
    assert FPS == 25
