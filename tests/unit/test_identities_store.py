"""The identity store's promises: whole or nothing, bounded, safe for several processes."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import resource
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from e3rg.errors import E3RGError
from e3rg.identities import record, store
from e3rg.identities.store import IdentityStore
from e3rg.identities.types import Identity, PortraitRef, PortraitReport

REPORT = PortraitReport(640, 480, (0.25, 0.2, 0.75, 0.9), 1.0, -2.0, 0.5, 80.0)
FIELDS = {
    "name": "Zoë",
    "gender": "female",
    "age": "adult",
    "voice": "af_heart",
    "profile": 'Says "hello" and means it: 你好 🙂 \\ done.',
}


def png(text: str) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + text.encode()


def add(target: IdentityStore, identity: str = "zoe", portrait: bytes | None = None) -> Identity:
    return target.add(identity, portrait=portrait or png(identity), report=REPORT, **FIELDS)


@pytest.fixture
def identities(tmp_path: Path) -> IdentityStore:
    return IdentityStore(tmp_path / "identities")


def refused(code: str, status: int) -> pytest.RaisesExc[E3RGError]:
    return pytest.RaisesExc(
        E3RGError, check=lambda error: (error.code, error.status) == (code, status)
    )


def test_builtin_listeners_cover_genders_and_ages(identities: IdentityStore) -> None:
    found = identities.list()
    assert all(item.builtin for item in found)
    assert len(found) >= 6
    assert {(item.gender, item.age) for item in found} == set(record.DEFAULT_VOICES)
    assert len({item.voice for item in found}) == len(found)
    assert len({item.portrait for item in found}) == len(found)
    assert identities.default() in found
    assert identities.damaged() == ()


def test_builtin_portraits_are_small_and_readable(identities: IdentityStore) -> None:
    sizes = [len(identities.portrait(item.portrait)) for item in identities.list()]
    assert max(sizes) < 600_000
    assert sum(sizes) < 2_500_000


def test_an_added_identity_comes_back_the_same(identities: IdentityStore) -> None:
    made = add(identities)
    again = IdentityStore(identities.folder)
    assert again.get("zoe") == made
    assert made in again.list()
    assert again.portrait(made.portrait) == png("zoe")
    assert made.profile == FIELDS["profile"]


def test_an_id_is_taken_once(identities: IdentityStore) -> None:
    add(identities)
    with refused("identity_exists", 409):
        add(identities, portrait=png("another"))
    assert identities.portrait(identities.get("zoe").portrait) == png("zoe")
    with refused("identity_exists", 409):
        add(identities, store.DEFAULT_IDENTITY)


def test_the_number_of_identities_is_bounded(tmp_path: Path) -> None:
    identities = IdentityStore(tmp_path, max_identities=2)
    add(identities, "one")
    add(identities, "two")
    with refused("identities_full", 409):
        add(identities, "three")
    identities.remove("one")
    add(identities, "three")


def test_removing(identities: IdentityStore) -> None:
    made = add(identities)
    identities.remove("zoe")
    assert made not in identities.list()
    with refused("unknown_identity", 404):
        identities.get("zoe")
    with refused("unknown_portrait", 404):
        identities.portrait(made.portrait)
    with refused("unknown_identity", 404):
        identities.remove("zoe")
    with refused("identity_builtin", 403):
        identities.remove(store.DEFAULT_IDENTITY)
    assert {path.name for path in identities.folder.iterdir()} <= {".lock"}


HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "/etc",
    "a/b",
    "A",
    "zoë",
    "名前",
    "a" * 300,
    "a\n",
    "a\0b",
    "a b",
]


@pytest.mark.parametrize("identity", HOSTILE)
def test_hostile_ids_touch_nothing(identities: IdentityStore, identity: str) -> None:
    with refused("identity_invalid", 422) as caught:
        add(identities, identity)
    assert caught.value.param == "id"
    with refused("unknown_identity", 404) as missing:
        identities.get(identity)
    assert missing.value.param == "identity"
    assert len(missing.value.message) < 400
    assert missing.value.message.isprintable()
    with refused("unknown_identity", 404):
        identities.remove(identity)
    with refused("unknown_portrait", 404):
        identities.portrait(PortraitRef(identity))
    assert not identities.folder.exists()
    assert list(identities.folder.parent.iterdir()) == []


@pytest.mark.parametrize("identity", ["a", "a" * 64, "7", "a-b-c"])
def test_good_ids(identities: IdentityStore, identity: str) -> None:
    assert add(identities, identity) == identities.get(identity)


def test_an_unknown_id_names_those_that_come_close(identities: IdentityStore) -> None:
    near = f"{store.DEFAULT_IDENTITY}x"
    with pytest.raises(E3RGError, match=f"choose one of {store.DEFAULT_IDENTITY}"):
        identities.get(near)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", " "),
        ("name", "x" * 81),
        ("name", "two\nlines"),
        ("gender", "none"),
        ("age", "12"),
        ("voice", "../voice"),
        ("voice", ""),
        ("profile", ""),
        ("profile", "x" * 501),
        ("profile", "bell\x07"),
    ],
)
def test_a_wrong_field_is_named(identities: IdentityStore, field: str, value: str) -> None:
    with refused("identity_invalid", 422) as caught:
        identities.add("zoe", portrait=png("zoe"), report=REPORT, **(FIELDS | {field: value}))
    assert caught.value.param == field
    assert not identities.folder.exists()


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process may grow beyond 1 kB: the kernel refuses the rest (EFBIG)."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_nothing(identities: IdentityStore) -> None:
    kept = add(identities, "kept")
    large = png("x" * 5000)
    with full_disk():
        with refused("disk_full", 507):
            add(identities, portrait=large)
        with refused("disk_full", 507):
            identities.put_portrait(large)
    assert [item for item in identities.list() if not item.builtin] == [kept]
    files = {path.name for path in identities.folder.rglob("*") if path.is_file()}
    assert files <= {"identity.toml", "portrait.png", ".lock"}
    assert add(identities) == identities.get("zoe")


def test_damage_is_reported_and_harms_nobody_else(identities: IdentityStore) -> None:
    whole = add(identities, "whole")
    for name in ("no-toml", "cut-toml", "no-portrait", "changed", "renamed"):
        add(identities, name)
    folder = identities.folder
    (folder / "no-toml" / "identity.toml").unlink()
    (folder / "cut-toml" / "identity.toml").write_text('id = "cut')
    (folder / "no-portrait" / "portrait.png").unlink()
    (folder / "changed" / "portrait.png").write_bytes(png("x"))
    (folder / "renamed").rename(folder / "moved")
    (folder / "stray.txt").write_text("not an identity")
    assert [item for item in identities.list() if not item.builtin] == [whole]
    damaged = {damage.path.name: damage.reason for damage in identities.damaged()}
    assert set(damaged) == {"no-toml", "cut-toml", "no-portrait", "changed", "moved"}
    assert "sha256" in damaged["changed"]
    with pytest.raises(E3RGError, match=r"identity\.toml is missing"):
        identities.get("no-toml")
    for name in damaged:
        identities.remove(name)
    assert identities.damaged() == ()


def test_what_a_killed_process_left_is_swept(
    identities: IdentityStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = identities.folder / ".new-killed"
    left.mkdir(parents=True)
    (left / "portrait.png").write_bytes(b"half")
    add(identities, "first")
    assert left.exists(), "it may still be at work"
    monkeypatch.setattr(store, "_STALE_S", -1.0)
    add(identities, "second")
    assert not left.exists()


def test_turn_portraits_are_bounded_and_the_latest_used_stay(tmp_path: Path) -> None:
    identities = IdentityStore(tmp_path, max_portraits=3)
    owned = add(identities)
    first = identities.put_portrait(png("0"))
    for number in range(1, 6):
        identities.put_portrait(png(str(number)))
        assert identities.put_portrait(png("0")) == first
    kept = [path.name for path in (tmp_path / ".portraits").iterdir()]
    assert len(kept) == 3
    assert identities.portrait(first) == png("0")
    with refused("unknown_portrait", 404):
        identities.portrait(PortraitRef(hashlib.sha256(png("1")).hexdigest()))
    assert identities.put_portrait(png("zoe")) == owned.portrait
    assert owned.portrait.sha256 not in {path.name for path in (tmp_path / ".portraits").iterdir()}
    assert identities.portrait(owned.portrait) == png("zoe")


def test_turn_portraits_are_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_TURN_PORTRAIT_BYTES", 100)
    identities = IdentityStore(tmp_path)
    for number in range(5):
        last = identities.put_portrait(png(str(number) * 40))
    assert sum(path.stat().st_size for path in (tmp_path / ".portraits").iterdir()) <= 100
    assert identities.portrait(last) == png("4" * 40)


def test_reading_a_turn_portrait_is_a_use_of_it(tmp_path: Path) -> None:
    identities = IdentityStore(tmp_path, max_portraits=2)
    refs = [identities.put_portrait(png(str(number))) for number in range(2)]
    for age, ref in enumerate(reversed(refs)):  # the first is the older one
        os.utime(tmp_path / ".portraits" / ref.sha256, (1e9 - age, 1e9 - age))
    identities.portrait(refs[0])
    identities.put_portrait(png("2"))
    assert identities.portrait(refs[0]) == png("0")
    with refused("unknown_portrait", 404):
        identities.portrait(refs[1])


def test_two_adds_at_the_limit_do_not_both_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identities = IdentityStore(tmp_path, max_identities=1)
    both = threading.Barrier(2)
    written = store.write_record

    def meet_then_write(*arguments: Any) -> None:
        # If the other gets as far as this, too, then both have counted before either was added.
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=1)
        written(*arguments)

    monkeypatch.setattr(store, "write_record", meet_then_write)

    def attempt(name: str) -> str:
        try:
            return add(identities, name).id
        except E3RGError as error:
            return error.code

    with ThreadPoolExecutor(2) as pool:
        results = set(pool.map(attempt, ("one", "two")))
    assert "identities_full" in results and len(results & {"one", "two"}) == 1


def test_a_changed_portrait_file_is_never_served(identities: IdentityStore) -> None:
    ref = identities.put_portrait(png("face"))
    (identities.folder / ".portraits" / ref.sha256).write_bytes(png("other face"))
    with refused("unknown_portrait", 404):
        identities.portrait(ref)
    assert identities.put_portrait(png("face")) == ref
    assert identities.portrait(ref) == png("face")


def _race(folder: Path, number: int) -> tuple[bool, bool]:
    mine = IdentityStore(folder, max_portraits=4)
    try:
        add(mine, portrait=png(str(number)))
        won = True
    except E3RGError as error:
        assert error.code == "identity_exists"
        won = False
    for turn in range(20):
        mine.put_portrait(png(f"{number} {turn}"))
        mine.get("zoe")
    return won, len(mine.damaged()) == 0


def test_several_processes_share_a_folder(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        results = pool.starmap(_race, [(tmp_path, number) for number in range(4)])
    assert [won for won, _ in results].count(True) == 1
    assert all(whole for _, whole in results)
    winner = next(number for number, (won, _) in enumerate(results) if won)
    shared = IdentityStore(tmp_path)
    assert shared.portrait(shared.get("zoe").portrait) == png(str(winner))
    assert len(list((tmp_path / ".portraits").iterdir())) <= 4
    assert not list(tmp_path.glob(".new-*"))
