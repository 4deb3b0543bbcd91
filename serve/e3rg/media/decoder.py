"""Uploads decoded in child processes, which may die without harm.

Plain subprocesses with pipes: they need no fork of a threaded parent, no import of its main module
(as multiprocessing's spawn does), and end with their parent, whose pipe they read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import selectors
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import e3rg
from e3rg.errors import E3RGError
from e3rg.media.decode import check_size
from e3rg.media.limits import Kind, MediaLimits
from e3rg.media.types import Clip, Pcm

log = logging.getLogger(__name__)

MEMORY_BYTES = 2 << 30
MAX_HEAD = 1 << 16
START_S = 60.0
CLOSED = "the media decoder is closed"
FILES_PER_WORKER = 500  # then a fresh one, so that a leak in a decoder stays small
GRACE_S = 2.0  # for the worker to report by itself what the caller would time out on


class MediaDecoder:
    """Decodes uploads with at most ``workers`` processes at once, started when needed.

    Example::

        decoder = MediaDecoder()
        clip = await decoder.decode(Path("/tmp/upload"), "audio", MediaLimits(), "audio")
        decoder.close()

    Args:
        workers: processes at most.
        max_waiting: further files that may wait for one.
        memory_bytes: address space of a worker.
    """

    def __init__(
        self, workers: int = 2, max_waiting: int = 32, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="media-decoder")
        self._places = workers + max_waiting
        self._memory = memory_bytes
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: dict[_Job, _Worker | None] = {}
        self._closed = False

    async def decode(
        self, path: Path, kind: Kind, limits: MediaLimits | None = None, param: str = "file"
    ) -> Clip:
        """Decode a file; see ``decode_upload``. Cancelling the task ends the worker at work on it.

        Raises:
            E3RGError: those of ``decode_upload``; ``<kind>_unreadable`` also when the worker died
                of the file or ran out of time; ``media_busy`` (503) when too many files wait.
            FileNotFoundError: if there is no such file.
            RuntimeError: after ``close``, or if workers cannot be started.
        """
        job = _Job(path, kind, limits or MediaLimits(), param)
        with self._lock:
            if self._closed:
                raise RuntimeError(CLOSED)
            if len(self._busy) >= self._places:
                message = f"{param}: too many files wait for decoding: try again soon"
                raise E3RGError("media_busy", message, param=param, status=503, retry_after=1)
            self._busy[job] = None
            future = self._executor.submit(self._run, job)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._cancel(job)
            task = asyncio.current_task()
            if self._closed and not (task and task.cancelling()):
                raise RuntimeError(CLOSED) from None
            raise
        finally:
            if future.cancelled():  # never ran, so that it did not give its place back itself
                with self._lock:
                    self._busy.pop(job, None)

    async def warm_up(self) -> None:
        """Start one worker ahead of the first file."""
        await asyncio.get_running_loop().run_in_executor(
            self._executor, lambda: self._put_back(self._worker())
        )

    def close(self) -> None:
        """End all workers and wait for them; safe to call twice."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for worker in self._busy.values():
                if worker is not None:
                    worker.kill()  # its thread sees the end and closes it
        for worker in idle:
            worker.close()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _cancel(self, job: _Job) -> None:
        with self._lock:
            job.cancelled = True
            worker = self._busy.get(job)
            if worker is not None:
                worker.kill()

    def _run(self, job: _Job) -> Clip:
        try:
            check_size(job.path, job.kind, job.limits, job.param)
            worker = self._worker()
            with self._lock:
                wanted = not (job.cancelled or self._closed)
                if wanted:
                    self._busy[job] = worker
            if not wanted:
                self._put_back(worker)
                raise RuntimeError(CLOSED)
            return self._ask(worker, job)
        finally:
            with self._lock:
                self._busy.pop(job, None)

    def _ask(self, worker: _Worker, job: _Job) -> Clip:
        try:
            clip = worker.decode(job)
        except E3RGError:
            self._release(worker, job)
            raise
        except (OSError, EOFError, TimeoutError, ValueError) as error:
            code = worker.close()
            if job.cancelled or self._closed:
                raise RuntimeError(CLOSED) from error
            log.warning("media worker ended with %s on a %s file: %r", code, job.kind, error)
            late = isinstance(error, TimeoutError)
            cause = "takes too long to decode" if late else "breaks the decoder"
            message = f"{job.param}: the file {cause}: save it anew in another format"
            raise E3RGError(
                f"{job.kind}_unreadable", message, param=job.param, status=422
            ) from error
        except BaseException:
            worker.close()
            raise
        self._release(worker, job)
        return clip

    def _release(self, worker: _Worker, job: _Job) -> None:
        with self._lock:
            self._busy[job] = None  # from here on, cancelling the job must not end the worker
        self._put_back(worker)

    def _worker(self) -> _Worker:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is not None:
            if worker.alive:
                return worker
            worker.close()
        return _Worker(self._memory)

    def _put_back(self, worker: _Worker) -> None:
        with self._lock:
            if not self._closed and worker.files < FILES_PER_WORKER and worker.alive:
                self._idle.append(worker)
                return
        worker.close()


class _Job:
    """A file to decode; compared by identity."""

    def __init__(self, path: Path, kind: Kind, limits: MediaLimits, param: str) -> None:
        self.path = path
        self.kind = kind
        self.limits = limits
        self.param = param
        self.cancelled = False


class _Worker:
    """One child process and its pipes; owned by one thread at a time."""

    def __init__(self, memory_bytes: int) -> None:
        # Nothing of the parent's environment but what Python and its libraries need to start.
        source = str(Path(e3rg.__file__).parents[1])
        environment = {
            key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH", "HOME") if key in os.environ
        }
        environment |= {"PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.files = 0
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "e3rg.media.worker", str(memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=environment,
        )
        try:
            if not self._answer(time.monotonic() + START_S).get("ready"):
                raise EOFError
        except (EOFError, OSError, TimeoutError, ValueError) as error:
            code = self.close()
            raise RuntimeError(f"a media worker did not start (exit code {code})") from error

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def decode(self, job: _Job) -> Clip:
        """Have a file decoded.

        Raises:
            E3RGError: what the worker reports.
            EOFError, OSError: it died.
            TimeoutError: it is late.
            ValueError: it answers nonsense.
        """
        self.files += 1
        deadline = time.monotonic() + job.limits.timeout_s + GRACE_S
        request = {"path": str(job.path.absolute()), "kind": job.kind, "param": job.param}
        head = json.dumps(request | {"limits": asdict(job.limits)}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(len(head).to_bytes(4, "big") + head)
        self._process.stdin.flush()
        answer = self._answer(deadline)
        if "error" in answer:
            error = answer["error"]
            raise E3RGError(
                str(error["code"]),
                str(error["message"]),
                param=job.param,
                status=int(error["status"]),
            )
        if "failure" in answer:
            raise RuntimeError(f"media worker: {answer['failure']}")
        most = int(job.limits.max_seconds + 60) * 32_000
        sizes = [int(size) for size in answer["sizes"]]
        if not sizes or min(sizes) < 0 or sum(sizes) > most + job.limits.max_frames * 2_000_000:
            raise ValueError("answer of an impossible size")
        sound, *frames = [self._read(size, deadline) for size in sizes]
        audio = Pcm(sound, int(answer["rate"])) if sound else None
        return Clip(audio, tuple(frames), float(answer["seconds"]))

    def kill(self) -> None:
        """End the process now; from any thread."""
        self._process.kill()

    def close(self) -> int:
        """End the process and close its pipes; only for the thread that owns the worker."""
        self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return code

    def _answer(self, deadline: float) -> dict[str, Any]:
        size = int.from_bytes(self._read(4, deadline), "big")
        if size > MAX_HEAD:
            raise ValueError("answer with an impossible head")
        answer = json.loads(self._read(size, deadline))
        if not isinstance(answer, dict):
            raise ValueError("answer that is no object")
        return answer

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        data = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while len(data) < size:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                part = os.read(descriptor, min(size - len(data), 1 << 20))
                if not part:
                    raise EOFError
                data += part
        return bytes(data)
