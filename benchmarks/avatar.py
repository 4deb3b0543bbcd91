"""Speed of the `blendshape` avatar on one core, as a multiple of real time.

Usage: ``taskset -c 0 python benchmarks/avatar.py [PORTRAIT]``; without one, the
default identity's. Both columns come from one run:
drawing alone, and drawing with H.264 encoding. "CPU" counts the core's own time for this process,
"wall" the clock, which other processes on the machine also use up.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from e3rg.config import model_dir
from e3rg.emotions.types import Delivery, Expression
from e3rg.identities.store import BUILTIN, DEFAULT_IDENTITY
from e3rg.identities.types import PortraitRef
from e3rg.media.segment_encoder import SegmentEncoder
from e3rg.media.types import Pcm, Phoneme
from e3rg.models.store import ModelStore
from e3rg.stages.avatar.blendshape import render_frames
from e3rg.stages.avatar.engine import FPS, SIZE, RenderRequest
from e3rg.stages.avatar.portrait import frame_portrait
from e3rg.stages.avatar.rig import build_rig
from e3rg.vision.face import FaceFinder

SECONDS, RATE, ROUNDS = 4, 24_000, 5


def speech() -> tuple[Pcm, tuple[Phoneme, ...]]:
    noise = np.random.default_rng(0).normal(0, 3000, SECONDS * RATE)
    symbols = "hɛlO mI fɹɛnd ɪts sO ɡʊd tu si ju əɡɛn tədA" * 4
    timing = (
        Phoneme(symbol.strip(), i * 0.075, (i + 1) * 0.075) for i, symbol in enumerate(symbols)
    )
    return Pcm(noise.astype("<i2").tobytes(), RATE), tuple(p for p in timing if p.end <= SECONDS)


def measure(work: Callable[[], int]) -> tuple[float, float]:
    """CPU and wall seconds of a round."""
    cpu, wall = time.process_time(), time.perf_counter()
    frames = work()
    assert frames == SECONDS * FPS
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    cv2.setNumThreads(1)
    default = BUILTIN / DEFAULT_IDENTITY / "portrait.jpg"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    started = time.perf_counter()
    portrait = frame_portrait(path.read_bytes(), FaceFinder.load(ModelStore(model_dir())), SIZE)
    rig = build_rig(portrait)
    prepared = time.perf_counter() - started
    audio, phonemes = speech()
    happy = Delivery(Expression.HAPPY, 0.8)
    request = RenderRequest(PortraitRef(""), audio, phonemes, 0, happy, None, 1)

    def draw() -> int:
        return sum(1 for _ in render_frames(rig, request))

    def draw_and_encode() -> int:
        encoder = SegmentEncoder(SIZE, FPS)
        packets = [p for frame in render_frames(rig, request) for p in encoder.encode(frame)]
        return len(packets + encoder.finish())

    draw()
    rounds = [(measure(draw), measure(draw_and_encode)) for _ in range(ROUNDS)]
    print(f"portrait prepared in {prepared:.2f} s; {ROUNDS} rounds of {SECONDS} s, {SIZE}×{SIZE}")
    print(f"{'times real time':<18}{'drawing':>10}{'+ encoding':>12}")
    for row, pick in (("median", np.median), ("best", np.min)):
        for column, clock in enumerate(("CPU", "wall")):
            drawing, encoded = (
                SECONDS / float(pick([each[kind][column] for each in rounds])) for kind in (0, 1)
            )
            print(f"{row + ', ' + clock:<18}{drawing:>10.1f}{encoded:>12.1f}")


if __name__ == "__main__":
    main()
