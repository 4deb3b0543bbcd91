"""MilvusMemory on Milvus Lite, with the real embedder and the real exemplars."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from milvus_lite.adapter.grpc.server import start_server_in_thread
from milvus_lite.server_manager import server_manager_instance

from e3rg.config import ConfigError, model_dir
from e3rg.embedding.minilm import MiniLmEmbedder
from e3rg.emotions.types import Category, Emotion
from e3rg.engines import EngineContext
from e3rg.errors import E3RGError
from e3rg.identities.types import PortraitRef
from e3rg.models.store import ModelStore
from e3rg.stages.memory import milvus
from e3rg.stages.memory.corpus import load_exemplars
from e3rg.stages.memory.engine import Episode, MemoryQuery
from e3rg.stages.memory.milvus import MilvusMemory
from e3rg.stages.memory.store import clip, key

numbers = itertools.count()

GRIEF = {"sad", "devastated", "lonely", "disappointed"}


class NoPortraits:
    def portrait(self, ref: PortraitRef) -> bytes:
        raise E3RGError("unknown_portrait", f"no portrait {ref}")


def load(folder: Path, **options: Any) -> MilvusMemory:
    context = EngineContext(ModelStore(model_dir()), folder, NoPortraits())
    return MilvusMemory.load(context, lock_timeout_s=0.1, **options)


def episode(user: str, text: str, conversation: str = "earlier", **fields: Any) -> Episode:
    number = next(numbers)
    fields = {"reply": "I see.", "emotion": "sad", "created": float(number)} | fields
    return Episode(f"e{number}", user, conversation, text, **fields)


def feeling(label: str, category: Category) -> Emotion:
    return Emotion(label, category, intensity=0.8, confidence=0.8)


@pytest.fixture(scope="module", autouse=True)
def one_embedder() -> Iterator[None]:
    """The real model, loaded once instead of once for each engine."""
    embedder = MiniLmEmbedder.load(ModelStore(model_dir()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MiniLmEmbedder, "load", lambda models: embedder)
        yield


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose database holds the exemplars."""
    folder = tmp_path_factory.mktemp("filled")
    load(folder).close()
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    shutil.copytree(filled, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture(scope="module")
def memory(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusMemory]:
    """One engine for the tests that neither close nor break it; each has users of its own."""
    engine = load(shutil.copytree(filled, tmp_path_factory.mktemp("shared") / "data"))
    yield engine
    engine.close()


@pytest.fixture
async def own(folder: Path) -> AsyncIterator[MilvusMemory]:
    engine = load(folder, max_episodes=10, flush_every=4)
    yield engine
    engine.close()


# ── exemplars ───────────────────────────────────────────────────


async def test_a_lost_dog_finds_grief(memory: MilvusMemory) -> None:
    query = MemoryQuery("I lost my dog yesterday", emotion=feeling("sad", Category.SAD))
    found = (await memory.retrieve(query)).exemplars
    assert len(found) == 2
    assert {exemplar.emotion for exemplar in found} <= GRIEF
    assert all("dog" in e.situation or "cat" in e.situation for e in found)
    assert all(e.reply and 0.3 < e.similarity < 1 for e in found)


@pytest.mark.parametrize(
    ("text", "label", "category"),
    [
        ("I finally got promoted!", "proud", Category.HAPPY),
        ("My neighbour plays loud music all night", "annoyed", Category.ANGRY),
        ("There is a strange man outside my window", "terrified", Category.FEAR),
        ("I have an exam tomorrow and cannot sleep", "anxious", Category.FEAR),
    ],
)
async def test_a_known_emotion_is_preferred(
    memory: MilvusMemory, text: str, label: str, category: Category
) -> None:
    query = MemoryQuery(text, emotion=feeling(label, category), exemplars=3)
    found = (await memory.retrieve(query)).exemplars
    assert found[0].emotion == label
    plain = (await memory.retrieve(MemoryQuery(text, exemplars=3))).exemplars
    assert plain[0].similarity >= found[0].similarity  # without it, the nearest comes first


async def test_an_exemplar_finds_itself(memory: MilvusMemory) -> None:
    for exemplar in load_exemplars()[::97]:
        (first, *_) = (await memory.retrieve(MemoryQuery(exemplar.situation))).exemplars
        assert first.id == exemplar.id
        assert first.similarity == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("text", ["", "   \n", "\x00", "🙂🙂", "悲しい", "x" * 50_000, "\ud800"])
async def test_any_text_is_answered(memory: MilvusMemory, text: str) -> None:
    found = await memory.retrieve(MemoryQuery(text, user="any"))
    assert len(found.exemplars) == (2 if text.strip() else 0)
    await memory.remember(episode("any", text, reply=text))


async def test_no_more_than_asked(memory: MilvusMemory) -> None:
    found = await memory.retrieve(MemoryQuery("I am sad", user="u", exemplars=0, episodes=0))
    assert found.exemplars == found.episodes == ()
    found = await memory.retrieve(MemoryQuery("I am sad", exemplars=10_000))
    assert len(found.exemplars) == 16


# ── episodes ────────────────────────────────────────────────────


async def test_what_is_remembered_is_retrieved_at_once(memory: MilvusMemory) -> None:
    told = episode("ann", "My dog Rex died last week", reply="I'm so sorry.", created=12.5)
    await memory.remember(told)
    (found,) = (await memory.retrieve(MemoryQuery("I miss Rex so much", "ann"))).episodes
    assert found.similarity > 0.35
    assert (found.id, found.user, found.conversation) == (told.id, "ann", "earlier")
    assert (found.text, found.reply, found.created) == (told.text, "I'm so sorry.", 12.5)


async def test_own_conversation_and_unrelated_episodes_are_left_out(memory: MilvusMemory) -> None:
    await memory.remember(episode("bob", "My dog Rex died last week", "now"))
    await memory.remember(episode("bob", "I had toast for breakfast", "earlier"))
    query = MemoryQuery("I miss my dog Rex", "bob", "now")
    assert (await memory.retrieve(query)).episodes == ()


async def test_repetitions_are_recalled_once(memory: MilvusMemory) -> None:
    for text in ("My sister left", "my sister left.", "My sister left!", "My sister and I fight"):
        await memory.remember(episode("cyd", text))
    found = (await memory.retrieve(MemoryQuery("My sister left", "cyd"))).episodes
    assert len(found) == 2
    assert found[1].text == "My sister and I fight"


async def test_the_same_episode_twice_is_one(memory: MilvusMemory) -> None:
    told = episode("dee", "My dog Rex died last week")
    await memory.remember(told)
    await memory.remember(told)
    assert await memory.forget("dee") == 1


HOSTILE = st.one_of(
    st.text(min_size=1, max_size=40),
    st.sampled_from(
        [
            'x" or 1==1 or user_key != "',
            "x' or '1'=='1",
            '" or user_key like "%',
            "x\\",
            "{user}",
            "u\n",
            "\x00",
            "victim ",
            "Victim",
        ]
    ),
).filter(lambda user: user != "victim")


async def test_no_user_id_reaches_another_user(memory: MilvusMemory) -> None:
    secret = "My dog Rex died last week"
    await memory.remember(episode("victim", secret))
    loop = asyncio.get_running_loop()

    def ask(user: str) -> None:
        query = MemoryQuery(secret, user, conversation=user, episodes=16)
        found = asyncio.run_coroutine_threadsafe(memory.retrieve(query), loop).result(30)
        assert found.episodes == ()
        asyncio.run_coroutine_threadsafe(memory.forget(user), loop).result(30)

    check = given(HOSTILE)(ask)
    check = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))(check)
    await asyncio.to_thread(check)
    for user in (None, ""):
        assert (await memory.retrieve(MemoryQuery(secret, user))).episodes == ()
    assert len((await memory.retrieve(MemoryQuery(secret, "victim"))).episodes) == 1


async def test_hostile_ids_keep_their_own(memory: MilvusMemory) -> None:
    for user in ('a" or 1==1 or "', "b\\", "c\n\x00", "d\ud800"):
        await memory.remember(episode(user, "My dog Rex died last week", user))
        found = (await memory.retrieve(MemoryQuery("I miss my dog Rex", user))).episodes
        assert [item.user for item in found] == [user]
        assert await memory.forget(user) == 1


@given(st.lists(st.text(), max_size=3), st.lists(st.text(), max_size=3))
def test_keys_do_not_collide(one: list[str], other: list[str]) -> None:
    assert (key(*one) == key(*other)) == (one == other)
    assert key(*one).isalnum()


@given(st.text(), st.integers(min_value=0, max_value=20))
def test_clip_keeps_within_bytes(text: str, most: int) -> None:
    kept = clip(text, most)
    assert len(kept.encode()) <= most
    assert text.replace("\0", "").startswith(kept) or "?" in kept


@pytest.mark.parametrize("user", ["", "x" * 2000])
async def test_a_bad_user_is_refused(memory: MilvusMemory, user: str) -> None:
    for call in (memory.forget(user), memory.remember(episode(user, "hello"))):
        with pytest.raises(E3RGError) as caught:
            await call
        assert (caught.value.code, caught.value.param) == ("invalid_user", "user")


async def test_concurrent_users_get_their_own(memory: MilvusMemory) -> None:
    async def one(number: int) -> None:
        user = f"crowd-{number}"
        await memory.remember(episode(user, f"My dog Rex {number} died last week"))
        found = (await memory.retrieve(MemoryQuery("I miss my dog Rex", user))).episodes
        assert [item.text for item in found] == [f"My dog Rex {number} died last week"]

    await asyncio.gather(*(one(number) for number in range(20)))


# ── what a database of its own is needed for ────────────────────


async def test_the_oldest_go_first(own: MilvusMemory) -> None:
    for number in range(13):
        await own.remember(episode("ann", f"Rex the dog, story {number}", created=float(number)))
        await own.remember(episode("bob", "Rex the dog"))
    query = MemoryQuery("Rex the dog, story", "ann", episodes=16)
    found = {item.text for item in (await own.retrieve(query)).episodes}
    assert "Rex the dog, story 12" in found
    assert not {f"Rex the dog, story {number}" for number in range(3)} & found
    # A prune takes one more than it must, so that the next write need not prune.
    assert await own.forget("ann") == 9
    assert await own.forget("bob") == 9


def exemplar_sets(folder: Path) -> int:
    return len(list(folder.glob("memory.db/collections/*exemplars*")))


def written(folder: Path, text: str) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and text.encode() in p.read_bytes()]


async def test_forget_erases_the_bytes_and_nothing_else(folder: Path) -> None:
    own = load(folder, flush_every=2)
    for number in range(5):
        await own.remember(episode("ann", f"Xylophonist{number} my secret"))
        await own.remember(episode("bob", f"Zymurgist{number} my hobby"))
    assert written(folder, "Xylophonist")
    assert await own.forget("ann") == 5
    assert await own.forget("ann") == 0
    assert (await own.retrieve(MemoryQuery("Xylophonist my secret", "ann"))).episodes == ()
    assert not written(folder, "Xylophonist")
    own.close()
    again = load(folder)
    assert (await again.retrieve(MemoryQuery("Xylophonist my secret", "ann"))).episodes == ()
    assert await again.forget("bob") == 5
    again.close()


async def test_a_restart_keeps_episodes_and_loads_exemplars_only_on_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[int] = []
    embed = MiniLmEmbedder.embed

    def counting(self: Any, texts: Any) -> Any:
        embedded.append(len(texts))
        return embed(self, texts)

    monkeypatch.setattr(MiniLmEmbedder, "embed", counting)
    first = load(folder)
    assert embedded == []
    await first.remember(episode("ann", "My dog Rex died last week"))
    first.close()
    few = load_exemplars()[:8]
    monkeypatch.setattr(milvus, "load_exemplars", lambda: few)
    embedded.clear()
    second = load(folder)
    assert embedded == [8]
    found = await second.retrieve(MemoryQuery("I miss my dog Rex", "ann", exemplars=16))
    assert [item.text for item in found.episodes] == ["My dog Rex died last week"]
    assert {exemplar.id for exemplar in found.exemplars} == {exemplar.id for exemplar in few}
    second.close()
    assert exemplar_sets(folder) == 1


async def test_an_interrupted_rewrite_is_mended(folder: Path) -> None:
    own = load(folder)
    await own.remember(episode("ann", "My dog Rex died last week"))
    client = own._store._client
    client.flush("e3rg_episodes")
    client.rename_collection("e3rg_episodes", "e3rg_episodes_rewrite")
    own.close()
    again = load(folder)
    assert len((await again.retrieve(MemoryQuery("I miss my dog Rex", "ann"))).episodes) == 1
    again._store._create("e3rg_episodes_rewrite", again._store._episode_schema(), "FLAT")
    again.close()
    last = load(folder)
    assert await last.forget("ann") == 1
    last.close()


def test_a_second_opener_is_told_what_to_do(folder: Path) -> None:
    first = load(folder)
    with pytest.raises(ConfigError, match=r"memory\.db is open .* E3RG_DATA"):
        load(folder)
    first.close()
    first.close()
    load(folder).close()


async def test_close_leaves_no_thread(folder: Path) -> None:
    load(folder).close()  # what libraries start once and keep
    before = {thread.name for thread in threading.enumerate()}
    own = load(folder)
    await own.remember(episode("ann", "My dog Rex died"))
    await own.retrieve(MemoryQuery("I miss my dog Rex", "ann"))
    own.close()
    left = {thread.name for thread in threading.enumerate()} - before
    assert not {name for name in left if name.startswith("memory")}
    with pytest.raises(E3RGError, match="closed"):
        await own.retrieve(MemoryQuery("hello"))


async def test_a_server_that_dies_is_a_typed_error(folder: Path) -> None:
    own = load(folder, timeout_s=1)
    server_manager_instance.release_server(str(folder / "memory.db"))
    for call in (
        own.retrieve(MemoryQuery("hello", "ann")),
        own.remember(episode("ann", "hello")),
    ):
        with pytest.raises(E3RGError) as caught:
            await call
        assert (caught.value.code, caught.value.status) == ("memory_unavailable", 503)
    own.close()


async def test_two_engines_share_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Milvus Lite's own gRPC server, reached by address as a Milvus server is.
    server, database, port = start_server_in_thread(str(tmp_path / "s"), "127.0.0.1", 0)
    few = load_exemplars()[:8]
    monkeypatch.setattr(milvus, "load_exemplars", lambda: few)
    uri = f"http://127.0.0.1:{port}"
    try:
        one, other = load(tmp_path, uri=uri), load(tmp_path, uri=uri)
        await one.remember(episode("ann", "My dog Rex died last week"))
        await one.remember(episode("bob", "My dog Rex died last week"))
        query = MemoryQuery("I miss my dog Rex", "ann")
        assert len((await other.retrieve(query)).episodes) == 1
        assert await other.forget("ann") == 1
        assert (await one.retrieve(query)).episodes == ()
        other.close()
        assert len((await one.retrieve(query)).exemplars) == 2
        assert await one.forget("bob") == 1
        one.close()
    finally:
        server.stop(grace=0)
        database.close()


def test_a_server_that_is_not_there_or_silent_is_a_typed_error(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for port in (1, silent.getsockname()[1]):
            with pytest.raises(E3RGError) as caught:
                load(tmp_path, uri=f"http://127.0.0.1:{port}", timeout_s=0.5)
            assert (caught.value.code, caught.value.status) == ("memory_unavailable", 503)
            assert "uri" in caught.value.message


@pytest.mark.parametrize(
    "options", [{"uri": "memory.sqlite"}, {"index": "B-TREE"}, {"floor": 2}, {"max_episodes": 0}]
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="memory"):
        load(tmp_path, **options)


async def test_too_many_calls_are_refused_not_queued(memory: MilvusMemory) -> None:
    calls = [memory.retrieve(MemoryQuery(f"hello {number}")) for number in range(200)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    refused = [result for result in results if isinstance(result, E3RGError)]
    assert refused
    assert {error.code for error in refused} == {"memory_unavailable"}
    assert len(refused) < len(results)
    assert (await memory.retrieve(MemoryQuery("hello"))).exemplars


async def test_embedding_alone_is_what_retrieval_uses(own: MilvusMemory) -> None:
    texts = ("I lost my dog.", *(f"Line {n} " * n for n in range(1, 40)), "I lost my dog.")
    found = await own.embed(texts)
    assert found.vectors.shape == (41, 384)
    rows = [MiniLmEmbedder.load(ModelStore(model_dir())).embed([text])[0] for text in texts]
    assert np.allclose(found.vectors, rows, atol=1e-5)
    assert found.tokens > 41 * 3
    assert (await own.embed(())).vectors.shape == (0, 384)


async def test_embedding_much_stops_when_cancelled(own: MilvusMemory) -> None:
    working = asyncio.create_task(own.embed(tuple(f"{n} lines " * 40 for n in range(2000))))
    await asyncio.sleep(0.1)
    assert not working.done()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    async with asyncio.timeout(10):  # 2000 texts would take a minute
        assert (await own.retrieve(MemoryQuery("I lost my dog."))).exemplars
        await asyncio.to_thread(own.close)
