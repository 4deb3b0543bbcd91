"""The decoding processes: they die without harm and leave nothing over."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from media_samples import tone, video_file

from e3rg.errors import E3RGError
from e3rg.media.decode import decode_upload
from e3rg.media.decoder import MEMORY_BYTES, MediaDecoder
from e3rg.media.encode import encode_audio
from e3rg.media.limits import MediaLimits


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    path = tmp_path / "speech.bin"
    path.write_bytes(encode_audio(tone(2.0), "flac"))
    return path


@pytest.fixture
async def decoder() -> AsyncIterator[MediaDecoder]:
    decoder = MediaDecoder(workers=1, max_waiting=3)
    await decoder.warm_up()
    yield decoder
    decoder.close()
    assert workers() == []


def workers() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()  # not those of a running system
        if child.status() != psutil.STATUS_ZOMBIE and "e3rg.media.worker" in child.cmdline()
    ]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def gone(worker: psutil.Process) -> None:
    def wait() -> None:
        end = time.monotonic() + 20
        while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < end
            time.sleep(0.01)

    with contextlib.suppress(psutil.NoSuchProcess):
        await asyncio.to_thread(wait)


async def test_the_same_as_in_process(decoder: MediaDecoder, speech: Path, tmp_path: Path) -> None:
    limits = MediaLimits()
    assert await decoder.decode(speech, "audio") == decode_upload(speech, "audio", limits, "file")
    film = tmp_path / "film"
    film.write_bytes(video_file(2.0, sound=True))
    clip = await decoder.decode(film, "video", limits, "video")
    assert clip == decode_upload(film, "video", limits, "video")
    assert clip.audio and len(clip.frames) == 8
    (only,) = workers()  # warm: one process did it all
    assert only.rlimit(psutil.RLIMIT_AS) == (MEMORY_BYTES, MEMORY_BYTES)
    assert 0 < only.rlimit(psutil.RLIMIT_CPU)[0] < 100
    assert only.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
    assert "E3RG_SECRET" not in only.environ()


async def test_errors_come_back_whole(decoder: MediaDecoder, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("a letter")
    (tmp_path / "empty").touch()
    for name, code in (("a.wav", "audio_unreadable"), ("empty", "audio_empty")):
        with pytest.raises(E3RGError) as caught:
            await decoder.decode(tmp_path / name, "audio", param="input_audio")
        error = caught.value
        assert (error.code, error.param, error.status) == (code, "input_audio", 422)
    assert len(workers()) == 1


async def test_a_file_that_is_not_there_is_no_fault_of_the_upload(
    decoder: MediaDecoder, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        await decoder.decode(tmp_path / "none", "audio")


async def test_a_worker_that_dies_takes_nothing_along(decoder: MediaDecoder, speech: Path) -> None:
    (worker,) = workers()
    worker.suspend()  # so that it dies at work
    task = asyncio.create_task(decoder.decode(speech, "audio", param="audio"))
    await asyncio.sleep(0.1)
    worker.kill()
    with pytest.raises(E3RGError, match="breaks the decoder") as caught:
        await task
    assert (caught.value.code, caught.value.param) == ("audio_unreadable", "audio")
    assert (await decoder.decode(speech, "audio")).seconds == 2.0


async def test_a_worker_that_died_idle_is_replaced(decoder: MediaDecoder, speech: Path) -> None:
    (worker,) = workers()
    worker.kill()
    await gone(worker)
    assert (await decoder.decode(speech, "audio")).seconds == 2.0


async def test_a_file_that_takes_too_long(decoder: MediaDecoder, speech: Path) -> None:
    (worker,) = workers()
    worker.suspend()
    with pytest.raises(E3RGError, match="too long to decode") as caught:
        await decoder.decode(speech, "audio", MediaLimits(timeout_s=0.1))
    assert caught.value.status == 422
    assert not worker.is_running()
    assert (await decoder.decode(speech, "audio")).seconds == 2.0


async def test_too_much_cpu_time_ends_the_worker(speech: Path) -> None:
    code = "import e3rg.media.worker as w\nw._limit_cpu(0.1)\nwhile True: pass"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await asyncio.wait_for(process.wait(), 60) in (-signal.SIGXCPU, -signal.SIGKILL)


async def test_cancelling_ends_the_work(decoder: MediaDecoder, speech: Path) -> None:
    (worker,) = workers()
    worker.suspend()
    first = asyncio.create_task(decoder.decode(speech, "audio"))
    waiting = asyncio.create_task(decoder.decode(speech, "audio"))
    last = asyncio.create_task(decoder.decode(speech, "audio"))
    await asyncio.sleep(0.1)
    waiting.cancel()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await gone(worker)
    assert (await last).seconds == 2.0


async def test_the_queue_is_bounded(decoder: MediaDecoder, speech: Path) -> None:
    (worker,) = workers()
    worker.suspend()
    tasks = [asyncio.create_task(decoder.decode(speech, "audio")) for _ in range(4)]
    await asyncio.sleep(0.1)
    with pytest.raises(E3RGError) as caught:
        await decoder.decode(speech, "audio", param="audio")
    assert (caught.value.code, caught.value.status) == ("media_busy", 503)
    assert caught.value.retry_after
    worker.resume()
    assert [clip.seconds for clip in await asyncio.gather(*tasks)] == [2.0] * 4
    assert (await decoder.decode(speech, "audio")).seconds == 2.0  # the places came back


async def test_close_ends_what_is_at_work(speech: Path) -> None:
    decoder = MediaDecoder(workers=1)
    await decoder.warm_up()
    workers()[0].suspend()
    tasks = [asyncio.create_task(decoder.decode(speech, "audio")) for _ in range(3)]
    await asyncio.sleep(0.1)
    await asyncio.to_thread(decoder.close)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [RuntimeError] * 3
    assert workers() == []
    with pytest.raises(RuntimeError, match="closed"):
        await decoder.decode(speech, "audio")
    decoder.close()


async def test_a_worker_that_cannot_start_is_the_servers_fault(speech: Path) -> None:
    decoder = MediaDecoder(workers=1, memory_bytes=1 << 20)
    with pytest.raises(RuntimeError, match="did not start"):
        await decoder.decode(speech, "audio")
    decoder.close()


async def test_many_at_once_leave_nothing_over(speech: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(os.urandom(5000))
    process = psutil.Process()
    decoder = MediaDecoder(workers=2, max_waiting=40)
    files = process.num_fds()
    threads = process.num_threads()
    jobs = [decoder.decode(bad if n % 3 == 0 else speech, "audio") for n in range(36)]
    results = await asyncio.gather(*jobs, return_exceptions=True)
    assert len(workers()) <= 2
    for n, result in enumerate(results):
        if n % 3 == 0:
            assert isinstance(result, E3RGError) and result.code == "audio_unreadable"
        else:
            assert not isinstance(result, BaseException) and result.audio
            assert result.audio.samples == 2 * 16_000
    decoder.close()
    assert workers() == []
    assert process.num_fds() == files
    assert process.num_threads() == threads
    assert names(tmp_path) == ["bad", "speech.bin"]


def test_workers_end_with_a_parent_that_is_killed() -> None:
    code = (
        "import asyncio, psutil, time\n"
        "from e3rg.media.decoder import MediaDecoder\n"
        "asyncio.run(MediaDecoder().warm_up())\n"
        "print(psutil.Process().children()[0].pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    try:
        worker.wait(20)
    finally:
        if worker.is_running():
            worker.kill()


def test_one_decoder_serves_many_loops(speech: Path) -> None:
    decoder = MediaDecoder(workers=1)
    for _ in range(2):
        assert asyncio.run(decoder.decode(speech, "audio")).audio.samples == 32_000
    decoder.close()
