"""The local engine: modalities side by side, bounded, stoppable, and flat over many calls."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import psutil
import pytest
from drawn_faces import face
from shared_data import shared
from sounds import RATE, babble, noise, pcm, read, samples

from e3rg.config import ConfigError, model_dir
from e3rg.emotions.types import Category
from e3rg.engines import EngineContext, load_engine
from e3rg.errors import E3RGError
from e3rg.identities.types import PortraitRef
from e3rg.media.types import Pcm
from e3rg.messages import Message
from e3rg.models.store import ModelStore
from e3rg.stages.understanding import local
from e3rg.stages.understanding.engine import (
    HeardSegment,
    ListenRequest,
    Transcript,
    Utterance,
)
from e3rg.stages.understanding.local import LocalUnderstanding
from e3rg.stages.understanding.registry import ENGINES

GRIEF, JOY = "My dog died yesterday and I cannot stop crying.", "I won the race, I am so happy!"


class NoPortraits:
    def portrait(self, ref: PortraitRef) -> bytes:
        raise E3RGError("unknown_portrait", f"no portrait {ref.sha256}")


CONTEXT = EngineContext(ModelStore(model_dir()), Path("unused"), NoPortraits())


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalUnderstanding]:
    loaded = load_engine(ENGINES, "local", CONTEXT, {"threads": 2})
    assert isinstance(loaded, LocalUnderstanding)
    yield loaded
    loaded.close()


def jpeg(mouth: str) -> bytes:
    return cv2.imencode(".jpg", face(mouth))[1].tobytes()


async def test_words_alone(engine: LocalUnderstanding) -> None:
    grief, joy = await asyncio.gather(
        engine.recognize(Utterance(GRIEF)), engine.recognize(Utterance(JOY))
    )
    assert (grief.category, joy.category) == (Category.SAD, Category.HAPPY)
    assert set(grief.modalities) == {"text"}
    assert len(grief.labels) == 32
    assert 0 < grief.confidence <= 1


async def test_every_modality_is_kept(engine: LocalUnderstanding) -> None:
    utterance = Utterance(
        JOY, babble(3), (jpeg("smile"),) * 2, (Message("user", "Guess what happened!"),)
    )
    emotion = await engine.recognize(utterance)
    assert set(emotion.modalities) == {"text", "voice", "face"}
    assert emotion.category is Category.HAPPY
    alone = await engine.recognize(Utterance(JOY, history=utterance.history))
    assert emotion.confidence > alone.confidence


async def test_what_is_absent_says_nothing(engine: LocalUnderstanding) -> None:
    wall = cv2.imencode(".jpg", np.full((90, 90, 3), 128, np.uint8))[1].tobytes()
    emotion = await engine.recognize(Utterance(GRIEF, noise(2), (wall, b"broken")))
    assert emotion == await engine.recognize(Utterance(GRIEF))
    blank = await engine.recognize(Utterance(" \n", pcm(np.zeros(RATE)), ()))
    assert (blank.category, blank.confidence) == (Category.NEUTRAL, 0)
    seen = await engine.recognize(Utterance("", None, (jpeg("smile"),)))
    assert (seen.label, set(seen.modalities)) == ("joyful", {"face"})


async def test_transcribes_beside_a_recognition(engine: LocalUnderstanding) -> None:
    speech = read(shared("speech_jfk.flac"))
    hearing = asyncio.ensure_future(engine.transcribe(speech))
    emotion = await engine.recognize(Utterance(JOY))
    assert not hearing.done()
    assert emotion.category is Category.HAPPY
    assert "ask what you can do for your country" in (await hearing).text


async def test_listening_gives_segments_as_they_are_known(engine: LocalUnderstanding) -> None:
    speech = samples(read(shared("speech_jfk.flac")))
    # Windows enough: whoever comes in the first one waits for the one that was queued behind it.
    long = ListenRequest(pcm(np.concatenate([speech, np.zeros(RATE)] * 4)))
    order: list[str] = []

    async def listen() -> None:
        async for segment in engine.listen(long):
            order.append(segment.text)

    async def another() -> None:
        while not order:
            await asyncio.sleep(0.01)
        await engine.transcribe(noise(1))
        order.append("another")

    await asyncio.gather(listen(), another())
    assert order.index("another") < len(order) - 1
    assert engine._running == set()


async def test_closing_stops_listening(
    engine: LocalUnderstanding, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows: list[threading.Event] = []

    def listen(request: ListenRequest, stop: threading.Event) -> Iterator[HeardSegment]:
        while not stop.is_set():
            windows.append(stop)
            yield HeardSegment("word", 0, 1, "en")

    monkeypatch.setattr(engine._speech, "listen", listen)
    segments = engine.listen(ListenRequest(noise(1)))
    await anext(segments)
    assert len(windows) == 1 and not windows[0].is_set()
    await segments.aclose()
    assert windows[0].is_set()
    assert engine._running == set()


async def test_cancellation_stops_the_work(
    engine: LocalUnderstanding, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, ended = threading.Event(), threading.Event()

    def listen(audio: Pcm, stop: threading.Event) -> Transcript:
        started.set()
        while not stop.is_set():
            time.sleep(0.005)
        ended.set()
        return Transcript("", "en", 0.0)

    monkeypatch.setattr(engine._speech, "transcribe", listen)
    task = asyncio.ensure_future(engine.transcribe(noise(1)))
    queued = asyncio.ensure_future(engine.transcribe(noise(1)))
    assert await asyncio.to_thread(started.wait, 30)
    for each in (queued, task):
        each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await each
    assert await asyncio.to_thread(ended.wait, 30)
    assert engine._running == set()


async def test_cancelled_recognition_looks_at_no_further_frame(
    engine: LocalUnderstanding, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine._face is not None
    read_frame = engine._face.read
    looked = threading.Event()
    count: list[int] = []

    def reading(image: np.ndarray) -> object:
        count.append(1)
        looked.set()
        time.sleep(0.2)
        return read_frame(image)

    monkeypatch.setattr(engine._face, "read", reading)
    task = asyncio.ensure_future(engine.recognize(Utterance("", None, (jpeg("smile"),) * 8)))
    assert await asyncio.to_thread(looked.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await engine.recognize(Utterance("", None, ()))
    engine._emotion_pool.submit(lambda: None).result(30)
    await asyncio.sleep(0.5)
    assert len(count) == 1


async def test_waiting_calls_are_bounded(
    engine: LocalUnderstanding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MAX_WAITING", 0)
    with pytest.raises(E3RGError) as error:
        await engine.recognize(Utterance(JOY))
    assert (error.value.code, error.value.status) == ("understanding_busy", 503)


async def test_fifty_calls_leave_nothing_behind(engine: LocalUnderstanding) -> None:
    utterance = Utterance(JOY, babble(2), (jpeg("open"),))
    process = psutil.Process()
    for _ in range(8):
        await engine.recognize(utterance)
    memory, threads, files = (
        process.memory_info().rss,
        threading.active_count(),
        process.num_fds(),
    )
    for turn in range(50):
        await engine.recognize(Utterance(f"{JOY} {turn}", utterance.audio, utterance.frames))
    assert process.memory_info().rss < 1.02 * memory
    assert threading.active_count() == threads
    assert process.num_fds() == files
    assert len(asyncio.all_tasks()) == 1


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match="smell"):
        LocalUnderstanding.load(CONTEXT, modalities=("text", "smell"))
    with pytest.raises(ConfigError, match="threads"):
        LocalUnderstanding.load(CONTEXT, threads=0)
    with pytest.raises(ConfigError, match="colour"):
        load_engine(ENGINES, "local", CONTEXT, {"colour": "red"})


async def test_modalities_can_be_left_out_and_close_releases_threads() -> None:
    before = threading.active_count()
    engine = LocalUnderstanding.load(CONTEXT, modalities=("voice",), threads=1)
    emotion = await engine.recognize(Utterance(JOY, babble(3), (jpeg("smile"),)))
    assert set(emotion.modalities) == {"voice"}
    await engine.transcribe(pcm(samples(noise(1))))
    engine.close()
    engine.close()
    assert threading.active_count() <= before
