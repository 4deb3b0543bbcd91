"""MiniLM: vectors mean something, do not depend on their batch, and the cache is bounded."""

from __future__ import annotations

import hashlib
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest

import e3rg
from e3rg.config import model_dir
from e3rg.embedding.minilm import MODEL, TOKENIZER, MiniLmEmbedder
from e3rg.models.store import ModelStore


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder.load(ModelStore(model_dir()))


def test_nearest_meaning_wins(embedder: MiniLmEmbedder) -> None:
    queries = embedder.embed(["My dog died yesterday", "I got the job I wanted"])
    known = embedder.embed(["We lost our beloved pet", "They hired me", "The train was late"])
    assert (queries @ known.T).argmax(axis=1).tolist() == [0, 1]


def test_shape_type_and_length(embedder: MiniLmEmbedder) -> None:
    vectors = embedder.embed(["one", "", "\x00", "你好", "\ud800", "word " * 5000])
    assert vectors.shape == (6, embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert embedder.embed([]).shape == (0, embedder.dimension)


def test_vector_does_not_depend_on_its_batch_or_place(embedder: MiniLmEmbedder) -> None:
    texts = [("word " * n + "is all I said").strip() for n in (40, 1, 20, 3, 90, 2, 7, 60, 11)]
    texts.append(texts[0])
    together = embedder.embed(texts)
    fresh = MiniLmEmbedder.load(ModelStore(model_dir()))
    alone = np.concatenate([fresh.embed([text]) for text in reversed(texts)])[::-1]
    assert np.allclose(together, alone, atol=1e-4)


def test_cache_is_bounded_and_gives_the_same_vector(embedder: MiniLmEmbedder) -> None:
    small = MiniLmEmbedder(embedder._session, embedder._tokenizer, cache_size=3)
    first = small.embed(["a", "b", "c", "d", "e"])
    assert list(small._cache) == ["c", "d", "e"]
    assert np.array_equal(small.embed(["a", "b", "c", "d", "e"]), first)
    again = small.embed(["e"])
    again[:] = 0  # a caller's writes must not reach the cache
    assert np.array_equal(small.embed(["e"])[0], first[4])


def test_threads_do_not_mix_vectors(embedder: MiniLmEmbedder) -> None:
    texts = [f"sentence number {n}" for n in range(12)]
    want = embedder.embed(texts)
    shared = MiniLmEmbedder(embedder._session, embedder._tokenizer, cache_size=2)
    wrong: list[int] = []

    def work(n: int) -> None:
        for _ in range(5):
            if not np.allclose(shared.embed([texts[n]])[0], want[n], atol=1e-5):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_manifest_names_the_files_that_are_loaded() -> None:
    manifest = Path(e3rg.__file__).parent / "models" / "manifest" / "embedding.toml"
    entries = {entry["name"]: entry for entry in tomllib.loads(manifest.read_text())["file"]}
    assert set(entries) == {MODEL, TOKENIZER}
    for name, entry in entries.items():
        data = ModelStore(model_dir()).path(name).read_bytes()
        assert len(data) == entry["size"]
        assert hashlib.sha256(data).hexdigest() == entry["sha256"]


def test_count_is_what_the_model_reads(embedder: MiniLmEmbedder) -> None:
    assert embedder.count([]) == 0
    assert embedder.count(["Hello"]) == 3  # enclosed by [CLS] and [SEP]
    assert embedder.count(["Hello", "", "word " * 5000]) == 3 + 2 + 128
