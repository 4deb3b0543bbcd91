"""``e3rg identities`` works on the data folder, with no server."""

from __future__ import annotations

import hashlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from e3rg.cli_identities import identities_app, slug
from e3rg.identities.store import DEFAULT_IDENTITY, IdentityStore


@pytest.fixture
def portrait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    store = IdentityStore(tmp_path)
    path = tmp_path / "face.jpg"
    path.write_bytes(store.portrait(store.default().portrait))
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(identities_app, list(arguments))


def test_add_show_list_remove(portrait: Path) -> None:
    added = run("add", "Zoë María", "--portrait", str(portrait), "--age", "senior")
    assert added.exit_code == 0, added.output
    assert "ok sharpness" in added.output
    assert "added zoe-maria" in added.output
    shown = run("show", "zoe-maria")
    assert "Zoë María" in shown.output
    assert "bf_emma" in shown.output
    assert hashlib.sha256(portrait.read_bytes()).hexdigest() in shown.output
    listed = run("list").output
    assert "zoe-maria" in listed
    assert DEFAULT_IDENTITY in listed
    again = run("add", "Zoë María", "--portrait", str(portrait))
    assert again.exit_code == 1
    assert "identity_exists" in again.output
    assert run("remove", "zoe-maria").exit_code == 0
    assert "zoe-maria" not in run("list").output


def test_a_bad_portrait_adds_nothing(portrait: Path, tmp_path: Path) -> None:
    cv2.imwrite(str(portrait), np.full((300, 300, 3), 128, np.uint8))
    refused = run("add", "Zoe", "--portrait", str(portrait))
    assert refused.exit_code == 1
    assert "portrait_no_face" in refused.output
    missing = run("add", "Zoe", "--portrait", str(tmp_path / "none.png"))
    assert missing.exit_code == 1
    assert "portrait_unreadable" in missing.output
    assert not (tmp_path / "data").exists()


def test_errors_have_a_code(portrait: Path) -> None:
    for arguments, code in (
        (("show", "nobody"), "unknown_identity"),
        (("remove", "../x"), "unknown_identity"),
        (("remove", DEFAULT_IDENTITY), "identity_builtin"),
        (("add", "Zoe", "--portrait", str(portrait), "--gender", "x"), "identity_invalid"),
        (("add", "Zoe", "--portrait", str(portrait), "--voice", "af_hart"), "identity_invalid"),
        (("add", "名前", "--portrait", str(portrait)), "identity_invalid"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1, arguments
        assert f"[{code}]" in result.output
        assert "Traceback" not in result.output


def test_an_unknown_voice_names_those_that_come_close(portrait: Path, tmp_path: Path) -> None:
    result = run("add", "Zoe", "--portrait", str(portrait), "--voice", "af_hart")
    assert "voice 'af_hart' does not exist: use one of af_heart" in result.output
    assert not (tmp_path / "data").exists()


def test_damage_is_shown(portrait: Path, tmp_path: Path) -> None:
    (tmp_path / "data" / "identities" / "broken").mkdir(parents=True)
    result = run("list")
    assert result.exit_code == 0
    assert "identity.toml is missing" in result.output


@pytest.mark.parametrize(
    ("name", "expected"), [("Zoë O'Neil", "zoe-o-neil"), ("  A  B ", "a-b"), ("名前", "")]
)
def test_slug(name: str, expected: str) -> None:
    assert slug(name) == expected
