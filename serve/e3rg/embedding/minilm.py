"""all-MiniLM-L6-v2 on ONNX Runtime with int8 weights.

Pooling and normalisation as in the model card
(https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2): the mean of the last hidden
states over real tokens, scaled to length 1.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Self

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from tokenizers import Tokenizer

from e3rg.models.store import ModelStore

MODEL = "minilm/model.onnx"
TOKENIZER = "minilm/tokenizer.json"

_DIMENSION = 384
_WINDOW = 128  # tokens; what the model was trained on, and what bounds the time of one call
_CHARACTERS = 4096  # no 128 tokens need more; saves tokenizing a book to keep its first page


class MiniLmEmbedder:
    """Embeds English text; safe to call from several threads.

    Args:
        session: the model.
        tokenizer: its tokenizer; truncation and padding are set here.
        batch_size: texts in one run at most; bounds memory.
        cache_size: recent texts whose vectors are kept; 0 keeps none.
    """

    dimension = _DIMENSION

    def __init__(
        self,
        session: ort.InferenceSession,
        tokenizer: Tokenizer,
        *,
        batch_size: int = 8,
        cache_size: int = 512,
    ) -> None:
        if batch_size < 1 or cache_size < 0:
            raise ValueError("batch_size must be at least 1 and cache_size at least 0")
        tokenizer.enable_truncation(_WINDOW)
        tokenizer.no_padding()
        self._session = session
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._cache_size = cache_size
        self._cache: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def load(cls, models: ModelStore, threads: int = 1) -> Self:
        """Load from the model cache.

        Args:
            models: where ``minilm/model.onnx`` and ``minilm/tokenizer.json`` are.
            threads: cores that one call may use.

        Raises:
            E3RGError: ``model_missing``.
        """
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Waiting threads must sleep: the cores belong to the other stages between two calls.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = ort.InferenceSession(
            str(models.path(MODEL)), options, providers=["CPUExecutionProvider"]
        )
        return cls(session, Tokenizer.from_file(str(models.path(TOKENIZER))))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts, each cut to its first 128 tokens.

        Returns:
            Array of shape (len(texts), 384), rows of length 1.
        """
        vectors = np.empty((len(texts), _DIMENSION), dtype=np.float32)
        missing: dict[str, list[int]] = {}
        with self._lock:
            for row, text in enumerate(texts):
                known = self._cache.get(text)
                if known is None:
                    missing.setdefault(text, []).append(row)
                else:
                    self._cache.move_to_end(text)
                    vectors[row] = known
        new = list(missing)
        for text, vector in zip(new, self._run(new), strict=True):
            vectors[missing[text]] = vector
            self._remember(text, vector)
        return vectors

    def count(self, texts: Sequence[str]) -> int:
        """Tokens that ``embed`` reads of these texts, with the two that enclose each of them."""
        encoded = self._tokenizer.encode_batch_fast(list(map(_clean, texts)))
        return sum(len(item.ids) for item in encoded)

    def _run(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.empty((len(texts), _DIMENSION), dtype=np.float32)
        for first in range(0, len(texts), 1024):
            part = texts[first : first + 1024]
            ids = [item.ids for item in self._tokenizer.encode_batch_fast(list(map(_clean, part)))]
            # Texts of like length share a batch, so that little of it is padding.
            order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
            for start in range(0, len(order), self._batch_size):
                rows = order[start : start + self._batch_size]
                vectors[[first + row for row in rows]] = self._forward([ids[row] for row in rows])
        return vectors

    def _forward(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        tokens = np.zeros((len(ids), max(map(len, ids))), dtype=np.int64)
        mask = np.zeros_like(tokens)
        for row, sequence in enumerate(ids):
            tokens[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        (hidden,) = self._session.run(
            None,
            {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)},
        )
        weights = mask[:, :, None].astype(np.float32)
        mean: NDArray[np.float32] = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        mean /= np.linalg.norm(mean, axis=1, keepdims=True)
        return mean

    def _remember(self, text: str, vector: NDArray[np.float32]) -> None:
        # Long texts are not worth their memory: they hardly ever come twice.
        if not self._cache_size or len(text) > _CHARACTERS:
            return
        with self._lock:
            self._cache[text] = vector.copy()
            self._cache.move_to_end(text)
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)


def _clean(text: str) -> str:
    # JSON may carry half of a surrogate pair, which no tokenizer can encode.
    return text[:_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
