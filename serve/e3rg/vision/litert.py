"""One LiteRT model that takes one picture."""

from __future__ import annotations

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray


class ImageNet:
    """A model with one square picture as input; not safe for threads.

    Attributes:
        size: pixels a side of the input.
    """

    def __init__(self, path: str, threads: int) -> None:
        self._interpreter = Interpreter(model_path=path, num_threads=threads)
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]
        self._outputs = self._interpreter.get_output_details()
        self.size = int(self._input["shape"][1])

    def run(self, image: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Run on a picture of shape (size, size, channels); every output, without batch axis."""
        self._interpreter.set_tensor(self._input["index"], image[np.newaxis])
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(output["index"])[0] for output in self._outputs]


def sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Logistic function, safe from overflow."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(values, -80.0, 80.0))), dtype=np.float32)
