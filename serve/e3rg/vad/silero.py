"""Silero VAD v6 (https://github.com/snakers4/silero-vad, MIT) on ONNX Runtime, as a stream.

The net reads windows of 32 ms at 16 kHz, each behind the last 64 samples of the one before, and
carries an LSTM state; it answers with the probability that somebody speaks.
"""

from __future__ import annotations

import threading

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from e3rg.models.store import ModelStore

WINDOW = 512
"""Samples of one window."""
_CONTEXT = 64
_STATE = 128
MODEL = "silero-vad/silero_vad_v6.onnx"
"""Name in the model store."""


class SileroVad:
    """The net; loaded at first use, shared by all streams.

    Args:
        models: where its file is.
    """

    def __init__(self, models: ModelStore) -> None:
        self._models = models
        self._lock = threading.Lock()
        self._session: onnxruntime.InferenceSession | None = None

    def load(self) -> None:
        """Load the net, in a thread, before sound comes.

        Raises:
            E3RGError: ``model_missing`` or ``model_corrupt``.
        """
        _ = self.session

    @property
    def session(self) -> onnxruntime.InferenceSession:
        """The loaded net. The first call takes a moment; make it in a thread.

        Raises:
            E3RGError: ``model_missing`` or ``model_corrupt``.
        """
        with self._lock:
            if self._session is None:
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = options.inter_op_num_threads = 1
                options.enable_cpu_mem_arena = False
                options.log_severity_level = 4
                self._session = onnxruntime.InferenceSession(
                    self._models.path(MODEL), options, providers=["CPUExecutionProvider"]
                )
            return self._session


class VadStream:
    """One stream of sound through the net.

    Args:
        vad: the net.
    """

    def __init__(self, vad: SileroVad) -> None:
        self._vad = vad
        self._rest = b""
        self._context = np.zeros(_CONTEXT, np.float32)
        self._hidden = np.zeros((1, 1, _STATE), np.float32)
        self._cell = np.zeros((1, 1, _STATE), np.float32)

    def feed(self, data: bytes) -> NDArray[np.float32]:
        """Take sound: less than a millisecond of work for each window.

        Args:
            data: PCM16 at 16 kHz; whole samples, any number.

        Returns:
            For each window that is complete now, the probability of speech, 0 to 1.
        """
        data = self._rest + data
        whole = len(data) // (2 * WINDOW)
        self._rest = data[whole * 2 * WINDOW :]
        if not whole:
            return np.empty(0, np.float32)
        samples = np.frombuffer(data, np.int16, whole * WINDOW).astype(np.float32) / 32_768
        stream = np.concatenate([self._context, samples])
        self._context = stream[-_CONTEXT:]
        windows = np.lib.stride_tricks.sliding_window_view(stream, WINDOW + _CONTEXT)[::WINDOW]
        probability, self._hidden, self._cell = self._vad.session.run(
            None,
            {"input": np.ascontiguousarray(windows), "h": self._hidden, "c": self._cell},
        )
        result: NDArray[np.float32] = probability.reshape(-1)
        return result
