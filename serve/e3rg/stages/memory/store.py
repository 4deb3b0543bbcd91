"""Exemplars and episodes in Milvus: schemas, searches and writes, blocking.

The same code serves a Milvus server and Milvus Lite, which keeps a folder on this machine
(https://milvus.io/docs/milvus_lite.md). Client API: https://milvus.io/api-reference/pymilvus.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from pymilvus import (  # type: ignore[import-untyped]
    CollectionSchema,
    DataType,
    MilvusClient,
)

from e3rg.config import ConfigError
from e3rg.stages.memory.engine import Episode, Exemplar

TEXT_BYTES = 4000
NAME_BYTES = 256
_KEY_BYTES = 64  # a sha256 in hexadecimal
_BATCH = 500
_REWRITE = "_rewrite"
_SLOW_S = 60.0  # of one call that works on a whole collection
# The embedded server drops a connection that is pinged as often as pymilvus does by default.
_KEEPALIVE = {"grpc_options": {"grpc.keepalive_time_ms": 2**31 - 1}}
_EPISODE_FIELDS = ["episode", "conversation", "text", "reply", "emotion", "created"]

Vector = NDArray[np.float32]


def key(*parts: str) -> str:
    """A name for use inside a filter.

    Callers' ids never appear in a filter: a hash has no quote to break out with (Milvus Lite has
    no filter templates), and says nothing to who reads the database.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How to reach the database, and what to ask of it; see MilvusMemory.load."""

    uri: str
    token: str = ""
    prefix: str = "e3rg_"
    index: str = "FLAT"
    consistency: str = "Strong"
    timeout_s: float = 5.0
    lock_timeout_s: float = 5.0

    @property
    def path(self) -> Path | None:
        """The folder of Milvus Lite, or None for a server."""
        remote = "://" in self.uri or self.uri.startswith("unix:")
        return None if remote else Path(self.uri)


class MilvusStore:
    """Two collections of one database. Reads may run in several threads, writes in one.

    Args:
        options: where and how.
        dimension: length of the vectors.

    Raises:
        ConfigError: for an address that is none, a folder that another store holds open, or
            episodes of another dimension.
        pymilvus.MilvusException: if the server does not answer.
    """

    def __init__(self, options: StoreOptions, dimension: int) -> None:
        self._options = options
        self._dimension = dimension
        self._lock: FileLock | None = None
        self._exemplars = ""
        self._episodes = f"{options.prefix}episodes"
        # Held where a local collection is swapped for its rewritten copy, and by its readers.
        self._swap = threading.Lock() if options.path else nullcontext()
        if options.path is not None:
            self._lock = _lock_folder(options.path, options.lock_timeout_s)
        try:
            # One connection for each store, so that closing it closes nobody else's.
            self._client = MilvusClient(
                options.uri,
                token=options.token,
                timeout=options.timeout_s,
                dedicated=True,
                **_KEEPALIVE if options.path else {},
            )
            self._open_episodes()
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        """Release connection, threads and lock."""
        self._client.close()
        self._release()

    # ── exemplars ───────────────────────────────────────────────

    def open_exemplars(self, exemplars: Sequence[Exemplar], fingerprint: str, vectors: Any) -> bool:
        """Make this set of exemplars the one that is searched.

        Each set has a collection of its own, named by its fingerprint, so that replicas of two
        releases can run side by side on one server; a local folder keeps the last only.

        Args:
            exemplars: all of them.
            fingerprint: of the set.
            vectors: called for their vectors, of shape (len(exemplars), dimension), if needed.

        Returns:
            True if they had to be loaded.
        """
        name = f"{self._options.prefix}exemplars_{fingerprint}"
        self._exemplars = name
        if not self._client.has_collection(name, timeout=self._options.timeout_s):
            schema = self._schema()
            schema.add_field("emotion", DataType.VARCHAR, max_length=NAME_BYTES)
            self._create(name, schema, "FLAT")  # few, and the same for everybody: search exactly
        self._client.load_collection(name, timeout=self._options.timeout_s)
        if self._count(name) == len(exemplars):
            return False
        rows = [
            {"id": item.id, "emotion": item.emotion, "vector": vector}
            for item, vector in zip(exemplars, vectors(), strict=True)
        ]
        for part in _batches(rows):
            self._client.upsert(name, part, timeout=self._options.timeout_s)
        self._client.flush(name, timeout=_SLOW_S)
        if self._options.path is not None:
            for other in self._client.list_collections(timeout=self._options.timeout_s):
                if other.startswith(f"{self._options.prefix}exemplars_") and other != name:
                    self._client.drop_collection(other, timeout=self._options.timeout_s)
        return True

    def search_exemplars(self, vector: Vector, limit: int) -> list[tuple[str, float]]:
        """Ids and cosine similarities of the nearest exemplars, nearest first."""
        hits = self._search(self._exemplars, vector, limit, "", ["id"])
        return [(hit["id"], float(hit["distance"])) for hit in hits]

    # ── episodes ────────────────────────────────────────────────

    def search_episodes(
        self, vector: Vector, user: str, conversation: str | None, limit: int
    ) -> list[Episode]:
        """This user's nearest episodes outside a conversation, nearest first."""
        where = _owner(user)
        if conversation is not None:
            where += f' and conversation_key != "{key(conversation)}"'
        with self._swap:
            hits = self._search(self._episodes, vector, limit, where, _EPISODE_FIELDS)
        return [_episode(hit["entity"], user, float(hit["distance"])) for hit in hits]

    def insert_episode(self, episode: Episode, vector: Vector) -> None:
        """Store an episode; one of the same user and id is replaced."""
        row = {
            "id": key(episode.user, episode.id),
            "user_key": key(episode.user),
            "conversation_key": key(episode.conversation),
            "episode": clip(episode.id, NAME_BYTES),
            "conversation": clip(episode.conversation, NAME_BYTES),
            "text": clip(episode.text, TEXT_BYTES),
            "reply": clip(episode.reply, TEXT_BYTES),
            "emotion": clip(episode.emotion, NAME_BYTES),
            "created": float(episode.created),
            "vector": vector,
        }
        self._client.upsert(self._episodes, [row], timeout=self._options.timeout_s)

    def prune_episodes(self, user: str, most: int) -> int:
        """Drop a user's oldest episodes if there are more than ``most``; returns how many."""
        if self._count(self._episodes, _owner(user)) <= most:
            return 0
        rows = self._query(self._episodes, _owner(user), ["id", "created"])
        rows.sort(key=lambda row: row["created"])
        # A tenth more than needed goes, so that not every later write has to prune again.
        old = [row["id"] for row in rows[: len(rows) - most + most // 10]]
        self._client.delete(self._episodes, ids=old, timeout=self._options.timeout_s)
        return len(old)

    def flush_episodes(self) -> None:
        """Turn recent writes into an indexed segment. They are durable and visible before."""
        self._client.flush(self._episodes, timeout=_SLOW_S)

    def erase_episodes(self, user: str) -> int:
        """Erase a user's episodes; returns how many there were.

        A deleted row is only marked: its bytes stay until a compaction. A server is asked for
        one (it drops the old segments after its own retention time). Milvus Lite compacts when
        it sees fit, so there what is left is written anew, and the old files are removed.
        """
        count = self._count(self._episodes, _owner(user))
        if count and self._options.path is None:
            self._client.delete(
                self._episodes, filter=_owner(user), timeout=self._options.timeout_s
            )
            self.flush_episodes()
            self._client.compact(self._episodes, timeout=self._options.timeout_s)
        elif count:
            self._rewrite_episodes(user)
        return count

    def _rewrite_episodes(self, without: str) -> None:
        name, copy, wait = self._episodes, self._episodes + _REWRITE, _SLOW_S
        gone = key(without)
        if self._client.has_collection(copy, timeout=wait):
            self._client.drop_collection(copy, timeout=wait)  # a rewrite that failed half way
        self._create(copy, self._episode_schema(), self._options.index)
        self._client.load_collection(copy, timeout=wait)
        ids = [row["id"] for row in self._query(name, f'user_key != "{gone}"', ["id"], wait)]
        for part in _batches(ids):
            rows = self._client.get(name, ids=part, output_fields=["*", "vector"], timeout=wait)
            self._client.insert(copy, rows, timeout=wait)
        self._client.flush(copy, timeout=_SLOW_S)
        with self._swap:
            self._client.drop_collection(name, timeout=wait)
            self._client.rename_collection(copy, name, timeout=wait)
            self._client.load_collection(name, timeout=wait)

    def _open_episodes(self) -> None:
        name, copy, wait = self._episodes, self._episodes + _REWRITE, self._options.timeout_s
        there = set(self._client.list_collections(timeout=wait))
        if copy in there and name in there:
            self._client.drop_collection(copy, timeout=wait)  # interrupted before it was whole
        elif copy in there:
            self._client.rename_collection(copy, name, timeout=wait)  # whole, not yet renamed
        elif name not in there:
            self._create(name, self._episode_schema(), self._options.index)
        fields = self._client.describe_collection(name, timeout=wait)["fields"]
        found = next(int(f["params"]["dim"]) for f in fields if f["name"] == "vector")
        if found != self._dimension:
            raise ConfigError(
                f"memory: the episodes in {self._options.uri} have {found} dimensions and the "
                f"embedder {self._dimension}: set the option prefix to start a new collection"
            )
        self._client.load_collection(name, timeout=wait)

    # ── Milvus ──────────────────────────────────────────────────

    def _schema(self) -> CollectionSchema:
        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=_KEY_BYTES)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=self._dimension)
        return schema

    def _episode_schema(self) -> CollectionSchema:
        schema = self._schema()
        schema.add_field("user_key", DataType.VARCHAR, max_length=_KEY_BYTES, is_partition_key=True)
        schema.add_field("conversation_key", DataType.VARCHAR, max_length=_KEY_BYTES)
        for name in ("episode", "conversation", "emotion"):
            schema.add_field(name, DataType.VARCHAR, max_length=NAME_BYTES)
        for name in ("text", "reply"):
            schema.add_field(name, DataType.VARCHAR, max_length=TEXT_BYTES)
        schema.add_field("created", DataType.DOUBLE)
        return schema

    def _create(self, name: str, schema: CollectionSchema, index: str) -> None:
        params = MilvusClient.prepare_index_params()
        build = {"M": 16, "efConstruction": 128} if index == "HNSW" else {}
        params.add_index("vector", index_type=index, metric_type="COSINE", params=build)
        self._client.create_collection(
            name,
            schema=schema,
            consistency_level=self._options.consistency,
            timeout=self._options.timeout_s,
        )
        # Loading waits for the index; waiting here as well asks what Milvus Lite cannot answer.
        self._client.create_index(name, params, timeout=self._options.timeout_s, sync=False)

    def _search(
        self, name: str, vector: Vector, limit: int, where: str, fields: list[str]
    ) -> list[dict[str, Any]]:
        params = {"ef": max(64, limit)} if self._options.index == "HNSW" else {}
        found = self._client.search(
            name,
            data=[vector],
            filter=where,
            limit=limit,
            output_fields=fields,
            search_params={"metric_type": "COSINE", "params": params},
            timeout=self._options.timeout_s,
        )
        return list(found[0])

    def _query(
        self, name: str, where: str, fields: list[str], wait: float | None = None
    ) -> list[dict[str, Any]]:
        wait = wait or self._options.timeout_s
        return list(self._client.query(name, filter=where, output_fields=fields, timeout=wait))

    def _count(self, name: str, where: str = "") -> int:
        return int(self._query(name, where, ["count(*)"])[0]["count(*)"])

    def _release(self) -> None:
        if self._options.path is not None:
            from milvus_lite.server_manager import (  # type: ignore[import-untyped]
                server_manager_instance,
            )

            # Closing the client leaves the embedded server running.
            server_manager_instance.release_server(self._options.uri)
        if self._lock is not None:
            self._lock.release()


def clip(text: str, most: int) -> str:
    """The longest start of a text that has at most ``most`` bytes in UTF-8, and no NUL."""
    data = text.replace("\0", "").encode("utf-8", "replace")[:most]
    return data.decode("utf-8", "ignore")


def _owner(user: str) -> str:
    return f'user_key == "{key(user)}"'


def _episode(row: dict[str, Any], user: str, similarity: float) -> Episode:
    return Episode(
        id=row["episode"],
        user=user,
        conversation=row["conversation"],
        text=row["text"],
        reply=row["reply"],
        emotion=row["emotion"],
        created=row["created"],
        similarity=similarity,
    )


def _batches(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def _lock_folder(path: Path, wait: float) -> FileLock:
    if path.suffix != ".db":
        raise ConfigError(f"memory: option uri: {path}: a local database is named *.db")
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=wait)
    except Timeout:
        raise ConfigError(
            f"memory: {path} is open in another process or engine, and Milvus Lite allows one: "
            "end that one, give this one another E3RG_DATA folder, or set the memory option uri "
            "to a Milvus server, which any number may share"
        ) from None
    return lock
