"""What understanding and memory ask of a text embedder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class TextEmbedder(Protocol):
    """Maps texts to unit vectors whose dot product is their similarity."""

    dimension: int

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts (each cut to the model's window).

        Returns:
            Array of shape (len(texts), dimension), rows of length 1.
        """
        ...

    def count(self, texts: Sequence[str]) -> int:
        """Tokens that ``embed`` reads of these texts."""
        ...
