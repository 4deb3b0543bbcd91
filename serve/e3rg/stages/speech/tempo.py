"""Speech faster or slower than the voice itself can, at the same pitch.

FFmpeg's ``atempo`` (WSOLA: Verhelst and Roelands 1993, doi:10.1109/ICASSP.1993.319366).
"""

from __future__ import annotations

from fractions import Fraction

import av
import av.filter
import numpy as np

from e3rg.stages.speech.sound import Samples


def stretch(samples: Samples, rate: int, tempo: float) -> Samples:
    """Change how fast speech is.

    Args:
        samples: mono speech.
        rate: Hz.
        tempo: 0.5 to 2; 2 halves the duration.
    """
    graph = av.filter.Graph()
    source = graph.add_abuffer(
        sample_rate=rate, format="flt", layout="mono", time_base=Fraction(1, rate)
    )
    change = graph.add("atempo", f"{tempo:.4f}")
    sink = graph.add("abuffersink")
    source.link_to(change)
    change.link_to(sink)
    graph.configure()
    frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="flt", layout="mono")
    frame.sample_rate = rate
    frame.pts, frame.time_base = 0, Fraction(1, rate)
    source.push(frame)
    source.push(None)
    parts: list[Samples] = []
    while True:
        try:
            pulled = sink.pull()
        except (av.FFmpegError, EOFError):
            break
        assert isinstance(pulled, av.AudioFrame)
        parts.append(pulled.to_ndarray()[0])
    return np.concatenate(parts) if parts else samples[:0]
