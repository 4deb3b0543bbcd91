"""H.264 for segments that can be joined: every segment is encoded alike and starts with an IDR."""

from __future__ import annotations

from fractions import Fraction

import av
import cv2
import numpy as np
from av.video.frame import VideoFrame
from numpy.typing import NDArray

from e3rg.media.types import VideoPacket

# No B-frames and no lookahead: a packet leaves for every frame that enters. repeat-headers puts
# SPS and PPS before the IDR, so that any segment can follow any other in one stream; a scene cut
# would put a second one inside a segment.
_X264 = (
    "threads=1:lookahead-threads=1:bframes=0:rc-lookahead=0:sync-lookahead=0:mbtree=0:"
    "keyint=infinite:scenecut=0:repeat-headers=1:annexb=1:aud=0:sliced-threads=0:"
    # What OpenCV's I420 conversion makes; without it players guess the colours.
    "colorprim=smpte170m:transfer=smpte170m:colormatrix=smpte170m:fullrange=off"
)


class SegmentEncoder:
    """Encodes one segment; not safe for threads.

    Args:
        size: width and height in pixels, even.
        fps: frames a second.
    """

    def __init__(self, size: int, fps: int) -> None:
        context = av.CodecContext.create("libx264", "w")
        context.width = context.height = size
        context.pix_fmt = "yuv420p"
        context.time_base = Fraction(1, fps)
        context.framerate = Fraction(fps, 1)
        context.thread_count = 1
        context.options = {
            # Against superfast at the same quality: half the time, a third more bits.
            "preset": "ultrafast",
            "crf": "23",
            "x264-params": _X264,
        }
        self._context = context
        self._frame = 0

    def encode(self, i420: NDArray[np.uint8]) -> list[VideoPacket]:
        """Encode one frame.

        Args:
            i420: shape (size * 3 / 2, size): planes Y, U, V, BT.601 limited range.
        """
        frame = VideoFrame.from_ndarray(i420, format="yuv420p")
        frame.pts = self._frame
        self._frame += 1
        return self._packets(frame)

    def finish(self) -> list[VideoPacket]:
        """What the encoder still holds; the encoder cannot be used afterwards."""
        return self._packets(None)

    def _packets(self, frame: VideoFrame | None) -> list[VideoPacket]:
        return [
            VideoPacket(bytes(packet), packet.is_keyframe) for packet in self._context.encode(frame)
        ]


def encode_still(jpeg: bytes, frames: int, *, fps: int = 25) -> list[VideoPacket]:
    """Hold one picture for some frames: a key frame, then frames that repeat it.

    Args:
        jpeg: a square picture of even size.
        frames: how many frames.
        fps: frames a second.

    Raises:
        ValueError: if it is not such a picture.
    """
    if frames <= 0:
        return []
    picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    if picture is None or picture.shape[0] != picture.shape[1] or picture.shape[0] % 2:
        raise ValueError("a still is a square JPEG of even size")
    encoder = SegmentEncoder(picture.shape[0], fps)
    i420 = np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2YUV_I420), np.uint8)
    packets = [packet for _ in range(frames) for packet in encoder.encode(i420)]
    return packets + encoder.finish()
