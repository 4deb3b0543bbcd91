from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from models_kit import entry, manifest

from e3rg.config import ConfigError
from e3rg.models.manifest import JoinSource, load_manifest

FOLDER = {"kind": "folder", "path": "/nowhere"}


def document(tmp_path: Path, **changes: str) -> Path:
    fields = {
        "name": '"a/model.onnx"',
        "sha256": f'"{"0" * 64}"',
        "size": "7",
        "license": '"MIT"',
        "profiles": '["local"]',
        **changes,
    }
    lines = [f"{key} = {value}" for key, value in fields.items()]
    source = '[[file.source]]\nkind = "pypi"\npackage = "p"\nversion = "1"\nmember = "p/m"\n'
    (tmp_path / "part.toml").write_text("\n".join(["[[file]]", *lines, source]), encoding="utf-8")
    return tmp_path


def test_the_packages_own_manifest_is_valid_and_complete() -> None:
    files = load_manifest().for_profile("local")
    assert files
    for file in files:
        assert all(":" not in file.name and file.license for _ in file.source)


def test_a_document_gives_its_files(tmp_path: Path) -> None:
    found = load_manifest(document(tmp_path))
    assert [file.name for file in found] == ["a/model.onnx"]
    assert str(next(iter(found)).source[0]) == "pypi p==1 p/m"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", '"../model.onnx"'),
        ("name", '"a/../../model.onnx"'),
        ("name", '"/etc/passwd"'),
        ("name", '".lock"'),
        ("name", '"a//b"'),
        ("name", '"a\\\\b"'),
        ("sha256", '"abc"'),
        ("sha256", f'"{"G" * 64}"'),
        ("size", "0"),
        ("size", '"7"'),
        ("license", '""'),
        ("profiles", "[]"),
        ("sorce", '"typo"'),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, field: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"part\.toml: file\.0\.{field}"):
        load_manifest(document(tmp_path, **{field: value}))


def test_broken_toml_names_the_document(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[[file", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"bad\.toml: not valid TOML"):
        load_manifest(tmp_path)


@pytest.mark.parametrize("member", ["../secret", "a/../../b", "/etc/passwd", "a//b", "..\\b", ""])
@pytest.mark.parametrize("kind", ["pypi", "npm"])
def test_a_member_stays_inside_its_archive(kind: str, member: str) -> None:
    source = {"kind": kind, "package": "p", "version": "1", "member": member}
    with pytest.raises(ValueError, match="member"):
        manifest(entry("x", b"1", source))


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "pypi", "package": "--index-url=evil", "version": "1", "member": "m"},
        {"kind": "pypi", "package": "p", "version": "1 --pre", "member": "m"},
        {"kind": "npm", "package": "../p", "version": "1", "member": "m"},
        {"kind": "url", "url": "file:///etc/passwd"},
        {"kind": "ftp", "url": "ftp://x"},
        {"kind": "hub", "repo": "no-owner", "path": "m"},
        {"kind": "join", "part": [FOLDER]},
    ],
)
def test_a_source_that_could_do_something_else_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="source"):
        manifest(entry("x", b"1", source))


def test_names_are_unique_and_no_file_is_a_folder_too() -> None:
    with pytest.raises(ConfigError, match="two files are named 'a/b'"):
        manifest(entry("a/b", b"1", FOLDER), entry("a/b", b"2", FOLDER))
    with pytest.raises(ConfigError, match="'a' is a file and a folder"):
        manifest(entry("a", b"1", FOLDER), entry("a/b", b"2", FOLDER))


def test_profiles_select_files() -> None:
    both = manifest(
        entry("a", b"1", FOLDER, profiles=["local", "gpu"]),
        entry("b", b"2", {"kind": "join", "part": [FOLDER, FOLDER]}, profiles=["gpu"]),
    )
    assert [file.name for file in both.for_profile("local")] == ["a"]
    assert [file.name for file in both.for_profile("gpu")] == ["a", "b"]
    assert both.profiles == ["gpu", "local"]
    assert isinstance([*both][1].source[0], JoinSource)
