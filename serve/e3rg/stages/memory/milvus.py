"""Empathy memory on Milvus: Milvus Lite in a local folder, or any Milvus server."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np
from grpc import RpcError  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pymilvus import MilvusException  # type: ignore[import-untyped]

from e3rg.config import ConfigError
from e3rg.embedding.engine import TextEmbedder
from e3rg.embedding.minilm import MODEL, MiniLmEmbedder
from e3rg.engines import EngineContext
from e3rg.errors import E3RGError
from e3rg.stages.memory.corpus import fingerprint, load_exemplars
from e3rg.stages.memory.engine import Embeddings, Episode, Exemplar, MemoryQuery, Retrieval
from e3rg.stages.memory.ranking import distinct, score
from e3rg.stages.memory.store import MilvusStore, StoreOptions, Vector, clip

log = logging.getLogger(__name__)
T = TypeVar("T")

_CANDIDATES = 100  # exemplars that emotion affinity chooses from
_MOST = 16  # of either kind in one retrieval
_QUEUE = 64  # calls in work or waiting, for reads and for writes
_ERASE_S = 300.0
_WRITE_S = 60.0  # a write may wait behind a flush or an erasure; nobody waits for its answer
_EMBED_TEXTS = 16  # embedded in one go; between two of these others have a turn
_EMBED_S = 30.0
_TEXT = 4000  # characters that are embedded; the embedder cuts to its window


class MilvusMemory:
    """MemoryEngine over a MilvusStore; make it with ``load``.

    Reads run in a few threads, writes one after another in a thread of their own.
    """

    def __init__(
        self,
        store: MilvusStore,
        embedder: TextEmbedder,
        exemplars: tuple[Exemplar, ...],
        *,
        floor: float = 0.35,
        max_episodes: int = 500,
        flush_every: int = 64,
        timeout_s: float = 5.0,
        readers: int = 4,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._exemplars = {exemplar.id: exemplar for exemplar in exemplars}
        self._floor = floor
        self._max_episodes = max_episodes
        self._flush_every = flush_every
        self._timeout_s = timeout_s
        self._unflushed = 0
        self._closed = False
        self._reads = _Pool(readers, "memory-read")
        self._writes = _Pool(1, "memory-write")

    @classmethod
    def load(
        cls,
        context: EngineContext,
        *,
        uri: str | None = None,
        token: str = "",
        prefix: str = "e3rg_",
        index: str = "FLAT",
        consistency: str = "Strong",
        floor: float = 0.35,
        max_episodes: int = 500,
        flush_every: int | None = None,
        timeout_s: float = 5.0,
        lock_timeout_s: float = 5.0,
    ) -> Self:
        """Open the database, and load the exemplars if it does not hold these yet.

        Args:
            context: where the embedder's weights are, and where a local database goes.
            uri: address of a Milvus server, or a local ``*.db`` path; by default
                ``memory.db`` in the context's data folder.
            token: ``user:password`` or API key of a server.
            prefix: of the collections' names, so that systems can share a server.
            index: of the episodes: FLAT is exact, HNSW is for very many episodes.
            consistency: Milvus's level. Strong lets every replica see what any replica wrote;
                Session, a little faster, only what it wrote itself.
            floor: cosine similarity below which an episode is not worth recalling.
            max_episodes: kept for each user; the oldest go first.
            flush_every: writes between two flushes of a local database (whose searches slow
                down with unflushed rows); 0 leaves it to Milvus, as on a server by default.
            timeout_s: of one call to the database.
            lock_timeout_s: how long to wait for another process to let a local database go.

        Raises:
            ConfigError: for a wrong option, or a local database that is open elsewhere.
            E3RGError: ``memory_unavailable`` if the server does not answer; ``model_missing``.
        """
        if not (max_episodes >= 1 and timeout_s > 0 and -1 <= floor <= 1):
            raise ConfigError("memory: needs max_episodes >= 1, timeout_s > 0, -1 <= floor <= 1")
        if index not in {"FLAT", "HNSW", "AUTOINDEX"}:
            raise ConfigError(f"memory: option index: {index!r} is not FLAT, HNSW or AUTOINDEX")
        options = StoreOptions(
            uri or str(context.data / "memory.db"),
            token=token,
            prefix=prefix,
            index=index,
            consistency=consistency,
            timeout_s=timeout_s,
            lock_timeout_s=lock_timeout_s,
        )
        if flush_every is None:
            flush_every = 64 if options.path else 0
        exemplars = load_exemplars()
        embedder = MiniLmEmbedder.load(context.models)
        model = context.models.manifest.get(MODEL)
        mark = fingerprint(exemplars, model.sha256 if model else MODEL)
        situations = [exemplar.situation for exemplar in exemplars]
        try:
            store = MilvusStore(options, embedder.dimension)
        except MilvusException as error:
            raise _unavailable(error) from error
        try:
            loaded = store.open_exemplars(exemplars, mark, lambda: embedder.embed(situations))
        except MilvusException as error:
            store.close()
            raise _unavailable(error) from error
        except BaseException:
            store.close()
            raise
        log.info("memory: %d exemplars, %s", len(exemplars), "loaded" if loaded else "unchanged")
        return cls(
            store,
            embedder,
            exemplars,
            floor=floor,
            max_episodes=max_episodes,
            flush_every=flush_every,
            timeout_s=timeout_s,
        )

    def close(self) -> None:
        """Finish writes that have begun, then release database and threads."""
        if not self._closed:
            self._closed = True
            self._reads.close()
            self._writes.close()
            self._store.close()

    async def retrieve(self, query: MemoryQuery) -> Retrieval:
        """Find exemplars and this user's episodes.

        Exemplars come in the order of similarity plus emotion affinity, episodes of similarity.
        A blank text finds nothing; nor does a user of None find episodes.

        Raises:
            E3RGError: ``memory_unavailable`` (503).
        """
        text = query.text[:_TEXT]
        if not text.strip():
            return Retrieval()
        timeout = self._timeout_s
        vector = await self._call(self._reads, timeout, self._embed, text)
        exemplars, episodes = await asyncio.gather(
            self._call(self._reads, timeout, self._find_exemplars, vector, query),
            self._call(self._reads, timeout, self._find_episodes, vector, query),
        )
        return Retrieval(exemplars, episodes)

    async def remember(self, episode: Episode) -> None:
        """Store one episode; visible to the next ``retrieve``.

        Long texts are cut; an episode of the same user and id is replaced; above the limit the
        user's oldest episodes are dropped.

        Raises:
            E3RGError: ``invalid_user``; ``memory_unavailable`` (503).
        """
        _check_user(episode.user)
        if not episode.text.strip():
            return
        await self._call(self._writes, _WRITE_S, self._remember, episode)

    async def embed(self, texts: tuple[str, ...]) -> Embeddings:
        """Embed texts as ``retrieve`` embeds its query; each is cut to the model's window.

        Cancelling the call stops the work within a few texts.

        Raises:
            E3RGError: ``memory_unavailable`` (503).
        """
        vectors = np.empty((len(texts), self._embedder.dimension), dtype=np.float32)
        tokens = 0
        # Texts of like length go together, so that little of a batch is padding.
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        for start in range(0, len(order), _EMBED_TEXTS):
            rows = order[start : start + _EMBED_TEXTS]
            part = [texts[row] for row in rows]
            vectors[rows], count = await self._call(
                self._reads, _EMBED_S, self._embed_counted, part
            )
            tokens += count
        return Embeddings(vectors, tokens)

    async def forget(self, user: str) -> int:
        """Erase all episodes of a user, on disk too; returns how many.

        Raises:
            E3RGError: ``invalid_user``; ``memory_unavailable`` (503).
        """
        _check_user(user)
        return await self._call(self._writes, _ERASE_S, self._store.erase_episodes, user)

    # ── in threads ──────────────────────────────────────────────

    def _embed(self, text: str) -> Vector:
        vector: Vector = self._embedder.embed([text])[0]
        return vector

    def _embed_counted(self, texts: list[str]) -> tuple[NDArray[np.float32], int]:
        return self._embedder.embed(texts), self._embedder.count(texts)

    def _find_exemplars(self, vector: Vector, query: MemoryQuery) -> tuple[Exemplar, ...]:
        limit = min(query.exemplars, _MOST)
        if limit < 1:
            return ()
        found = [
            replace(self._exemplars[name], similarity=similarity)
            for name, similarity in self._store.search_exemplars(vector, _CANDIDATES)
        ]
        found.sort(key=lambda exemplar: score(exemplar, query.emotion), reverse=True)
        return distinct(found, lambda exemplar: exemplar.situation, limit)

    def _find_episodes(self, vector: Vector, query: MemoryQuery) -> tuple[Episode, ...]:
        limit = min(query.episodes, _MOST)
        if limit < 1 or not query.user:
            return ()
        # People repeat themselves: look at more than are wanted.
        found = self._store.search_episodes(vector, query.user, query.conversation, 4 * limit)
        near = [episode for episode in found if episode.similarity >= self._floor]
        return distinct(near, lambda episode: episode.text, limit)

    def _remember(self, episode: Episode) -> None:
        self._store.insert_episode(episode, self._embed(clip(episode.text, _TEXT)))
        self._store.prune_episodes(episode.user, self._max_episodes)
        self._unflushed += 1
        if self._flush_every and self._unflushed >= self._flush_every:
            self._unflushed = 0
            # Behind this call: who waits for it need not wait for the flush.
            self._writes.submit(_logged, self._store.flush_episodes)

    async def _call(
        self, pool: _Pool, timeout_s: float, function: Callable[..., T], *arguments: Any
    ) -> T:
        if self._closed:
            raise _unavailable("the engine is closed")
        try:
            future = pool.submit(function, *arguments)
            return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)
        except TimeoutError as error:
            raise _unavailable(f"no answer in {timeout_s:g} s") from error
        except (MilvusException, RpcError) as error:
            raise _unavailable(error) from error


class _Pool:
    """Threads with a bounded queue; a call that was cancelled before its start never runs."""

    def __init__(self, threads: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._places = threading.BoundedSemaphore(_QUEUE)

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        if not self._places.acquire(blocking=False):
            raise _unavailable("too many calls at once")
        try:
            future = self._executor.submit(function, *arguments)
        except BaseException:
            self._places.release()
            raise
        future.add_done_callback(lambda _: self._places.release())
        return future

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)


def _logged(function: Callable[[], None]) -> None:
    try:
        function()
    except MilvusException:
        log.warning("memory: a flush failed; the next one will include it", exc_info=True)


def _check_user(user: str) -> None:
    if not user or len(user) > 1024:
        raise E3RGError("invalid_user", "user: give an id of 1 to 1024 characters", param="user")


def _unavailable(reason: object) -> E3RGError:
    detail = getattr(reason, "message", "") or str(reason)
    return E3RGError(
        "memory_unavailable",
        f"memory: the Milvus database does not serve this call ({detail}): check the memory "
        "option uri and that the server runs, then try again",
        status=503,
        retry_after=1.0,
    )
