"""What the avatar's tests share: a portrait drawn by code, requests, and probes of frames."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import cv2
import drawn_faces
import numpy as np
from numpy.typing import NDArray

from e3rg.config import model_dir
from e3rg.emotions.types import Delivery, Expression
from e3rg.engines import EngineContext
from e3rg.errors import E3RGError
from e3rg.identities.types import PortraitRef
from e3rg.media.types import Pcm, Phoneme, VideoPacket
from e3rg.models.store import ModelStore
from e3rg.stages.avatar.blendshape import BlendshapeAvatar, render_frames
from e3rg.stages.avatar.engine import FPS, SIZE, RenderRequest
from e3rg.stages.avatar.portrait import frame_portrait
from e3rg.stages.avatar.rig import Rig, build_rig
from e3rg.vision.face import FaceFinder

RATE = 24_000
NEUTRAL = Delivery(Expression.NEUTRAL, 0.0)


def png(image: NDArray[np.uint8]) -> bytes:
    return cv2.imencode(".png", image)[1].tobytes()


def portrait_bytes(seed: int = 0) -> bytes:
    return png(drawn_faces.face(seed=seed))


@dataclass
class Portraits:
    """A PortraitSource that counts its reads."""

    files: dict[PortraitRef, bytes]
    reads: int = 0

    @classmethod
    def of(cls, *files: bytes) -> Portraits:
        return cls({PortraitRef(hashlib.sha256(data).hexdigest()): data for data in files})

    @property
    def refs(self) -> list[PortraitRef]:
        return list(self.files)

    def portrait(self, ref: PortraitRef) -> bytes:
        self.reads += 1
        if ref not in self.files:
            raise E3RGError("unknown_portrait", "portrait is not stored", param="portrait")
        return self.files[ref]


def load(portraits: Portraits, **options: Any) -> BlendshapeAvatar:
    context = EngineContext(ModelStore(model_dir()), Path(), portraits)
    return BlendshapeAvatar.load(context, **options)


@functools.cache
def faces() -> FaceFinder:
    return FaceFinder.load(ModelStore(model_dir()))


@functools.cache
def drawn_rig() -> Rig:
    return build_rig(frame_portrait(portrait_bytes(), faces(), SIZE))


def hum(frames: int, level: float = 0.1) -> Pcm:
    """A steady sound of some frames."""
    noise = np.random.default_rng(1).standard_normal(frames * RATE // FPS)
    return Pcm((np.clip(noise * level, -1, 1) * 32767).astype("<i2").tobytes(), RATE)


def silence(frames: int) -> Pcm:
    return Pcm(bytes(2 * frames * RATE // FPS), RATE)


def spoken(symbols: str, each: float = 0.12, start: float = 0.0) -> tuple[Phoneme, ...]:
    return tuple(
        Phoneme(symbol, start + i * each, start + (i + 1) * each)
        for i, symbol in enumerate(symbols)
    )


def request(audio: Pcm, phonemes: tuple[Phoneme, ...] = (), **changes: Any) -> RenderRequest:
    values: dict[str, Any] = {
        "portrait": PortraitRef(""),
        "first_frame": 0,
        "delivery": NEUTRAL,
        "previous": None,
        "seed": 7,
    }
    return RenderRequest(audio=audio, phonemes=phonemes, **(values | changes))


def frames_of(rig: Rig, wanted: RenderRequest) -> list[NDArray[np.uint8]]:
    return [frame.copy() for frame in render_frames(rig, wanted)]


def mesh(frame: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The mesh found anew in an I420 frame, in distances between the eyes, shape (468, 2)."""
    image = cv2.cvtColor(frame, cv2.COLOR_YUV2BGR_I420).astype(np.uint8, copy=False)
    found = faces().detect(image)
    points = faces().mesh(image, found[0]).landmarks[:, :2].astype(np.float64)
    eyes = (points[[33, 263]] + points[[133, 362]]) / 2
    return points / float(np.linalg.norm(eyes[1] - eyes[0]))


def lip_gap(frame: NDArray[np.uint8]) -> float:
    points = mesh(frame)
    return float(np.linalg.norm(points[13] - points[14]))


def decode(packets: list[VideoPacket]) -> list[NDArray[np.uint8]]:
    decoder = av.CodecContext.create("h264", "r")
    decoder.thread_count = 1
    pictures = [frame for p in packets for frame in decoder.decode(av.Packet(p.data))]
    pictures += decoder.decode(None)
    return [picture.to_ndarray(format="yuv420p") for picture in pictures]
