"""The process that decodes uploads: ``python -m e3rg.media.worker <memory limit in bytes>``.

Each message is a 4-byte length and JSON; an answer's JSON is followed by the sound and the stills.
No pickle: what comes out of a process that strangers' bytes went through is data, not code.
"""

from __future__ import annotations

import io
import json
import resource
import signal
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO

import av.logging
import soxr

from e3rg.errors import E3RGError
from e3rg.media.decode import decode_upload
from e3rg.media.encode import wav_header
from e3rg.media.limits import MediaLimits

LENGTH = struct.Struct(">I")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until their pipe is closed."""
    _load_libraries()
    _send(answers, {"ready": True})
    while head := requests.read(LENGTH.size):
        request = json.loads(requests.read(LENGTH.unpack(head)[0]))
        limits = MediaLimits(**request["limits"])
        _limit_cpu(limits.timeout_s)
        path, kind, param = Path(request["path"]), request["kind"], request["param"]
        try:
            clip = decode_upload(path, kind, limits, param)
        except E3RGError as error:
            answer = {"code": error.code, "message": error.message, "status": error.status}
            _send(answers, {"error": answer})
        except Exception as error:
            _send(answers, {"failure": f"{type(error).__name__}: {error}"[:500]})
        else:
            sound = clip.audio.data if clip.audio else b""
            answer = {
                "seconds": clip.seconds,
                "rate": clip.audio.sample_rate if clip.audio else 0,
                "sizes": [len(sound), *map(len, clip.frames)],
            }
            _send(answers, answer, sound, *clip.frames)


def _load_libraries() -> None:
    """Decode a moment of silence: what is imported late is then in place, within the limits."""
    with av.open(io.BytesIO(wav_header(8000, 800) + bytes(800)), mode="r") as container:
        for frame in container.decode(audio=0):
            soxr.resample(frame.to_ndarray()[0], 8000, 16000)


def _send(answers: BinaryIO, answer: dict[str, Any], *blobs: bytes) -> None:
    head = json.dumps(answer).encode()
    answers.write(LENGTH.pack(len(head)) + head)
    answers.writelines(blobs)
    answers.flush()


def _limit_cpu(seconds: float) -> None:
    """Allow that many seconds more; behind them the kernel ends this process (SIGXCPU)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def main() -> None:
    """Run the worker on stdin and stdout."""
    memory = int(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # decoding writes no files
    av.logging.set_level(None)
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
