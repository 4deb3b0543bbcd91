"""Memory on Milvus Lite: load time, retrieve latency, recall against exact search, cost of writes.

Prints the ratio of a retrieve to exact search in NumPy over the same vectors, in one run.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import numpy as np

from e3rg.config import model_dir
from e3rg.embedding.minilm import MiniLmEmbedder
from e3rg.engines import EngineContext
from e3rg.errors import E3RGError
from e3rg.identities.types import PortraitRef
from e3rg.models.store import ModelStore
from e3rg.stages.memory.corpus import load_exemplars
from e3rg.stages.memory.engine import Episode, MemoryQuery
from e3rg.stages.memory.milvus import MilvusMemory

EPISODES, USERS, QUERIES = 500, 25, 100


class NoPortraits:
    def portrait(self, ref: PortraitRef) -> bytes:
        raise E3RGError("unknown_portrait", f"no portrait {ref}")


def milliseconds(seconds: list[float]) -> str:
    low, high = np.percentile(np.array(seconds) * 1e3, [50, 95])
    return f"p50 {low:6.1f} ms   p95 {high:6.1f} ms"


def texts(count: int, rng: np.random.Generator) -> list[str]:
    """Sentences of two exemplars' words, so that no two are alike."""
    words = [exemplar.situation.split() for exemplar in load_exemplars()]
    pairs = rng.integers(len(words), size=(count, 2))
    return [" ".join(words[a][: rng.integers(3, 9)] + words[b][-6:]) for a, b in pairs]


async def measure(folder: Path, index: str) -> None:
    models = ModelStore(model_dir())
    context = EngineContext(models, folder, NoPortraits())
    started = time.perf_counter()
    memory = MilvusMemory.load(context, index=index)
    print(f"index {index}, {EPISODES} episodes of {USERS} users")
    print(f"  first load {time.perf_counter() - started:.1f} s", end=", ")
    memory.close()
    started = time.perf_counter()
    memory = MilvusMemory.load(context, index=index)
    print(f"second load {time.perf_counter() - started:.1f} s")

    rng = np.random.default_rng(0)
    said = texts(EPISODES, rng)
    spent = []
    for number, text in enumerate(said):
        user = f"user-{number % USERS}"
        episode = Episode(f"e{number}", user, f"c{number}", text, "I see.", "sad", float(number))
        started = time.perf_counter()
        await memory.remember(episode)
        spent.append(time.perf_counter() - started)
    print(f"  remember, embedding included  {milliseconds(spent)}")

    embedder = MiniLmEmbedder.load(models)
    exemplars = embedder.embed([e.situation for e in load_exemplars()])
    names = np.array([e.id for e in load_exemplars()])
    vectors = embedder.embed(said)
    spent, exact, hits, wanted = [], [], 0, 0
    for number, text in enumerate(texts(QUERIES, rng)):
        user = number % USERS
        started = time.perf_counter()
        found = await memory.retrieve(MemoryQuery(text, f"user-{user}"))
        spent.append(time.perf_counter() - started)
        started = time.perf_counter()
        vector = embedder.embed([text])[0]
        rows = np.arange(user, EPISODES, USERS)
        near = rows[np.argsort(-(vectors[rows] @ vector))][:2]
        best = names[np.argsort(-(exemplars @ vector))][:2]
        exact.append(time.perf_counter() - started)
        near = [row for row in near if vectors[row] @ vector >= 0.35]
        hits += len({f"e{row}" for row in near} & {e.id for e in found.episodes})
        hits += len(set(best) & {e.id for e in found.exemplars})
        wanted += len(near) + len(best)
    print(f"  retrieve, embedding included  {milliseconds(spent)}")
    print(f"  exact search in NumPy         {milliseconds(exact)}")
    print(f"  ratio of the medians          {np.median(spent) / np.median(exact):.1f}")
    print(f"  recall@2 against it           {hits / wanted:.3f}")
    started = time.perf_counter()
    count = await memory.forget("user-7")
    print(f"  forget {count} of {EPISODES}             {time.perf_counter() - started:.2f} s")
    memory.close()


if __name__ == "__main__":
    for kind in ("FLAT", "HNSW"):
        with tempfile.TemporaryDirectory() as name:
            asyncio.run(measure(Path(name), kind))
