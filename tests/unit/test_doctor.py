from __future__ import annotations

import http.server
import socket
import threading
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from e3rg import doctor
from e3rg.config import Profile, load_profile


@pytest.fixture
def profile() -> Profile:
    return load_profile("local")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("E3RG_DATA", str(tmp_path / "data"))


def test_missing_models_fail_with_the_command_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The rest of the libraries take half a minute on a busy machine.
    monkeypatch.setattr(doctor, "_PACKAGES", ("numpy", "av"))
    monkeypatch.setattr(doctor, "_ENGINE_PACKAGES", {})
    mine = load_profile("local", {"gateway": {"port": 0}})
    (tmp_path / "mine.yaml").write_text(mine.model_dump_json(), encoding="utf-8")
    (tmp_path / "models" / "minilm").mkdir(parents=True)
    (tmp_path / "models" / "minilm" / "model.onnx").write_bytes(b"cut short")
    app = typer.Typer()
    app.command()(doctor.doctor_command)
    result = CliRunner().invoke(app, ["--profile", str(tmp_path / "mine.yaml")])
    assert result.exit_code == 1
    assert "fail models: " in result.output
    assert "-> e3rg models pull" in result.output
    assert result.output.count("fail ") == 1
    for name in ("Python", "packages", "data folder", "disk", "memory", "cores", "H.264 encoder"):
        assert name in result.output


def test_a_package_that_does_not_import_is_named(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_PACKAGES", ("json",))
    monkeypatch.setattr(doctor, "_ENGINE_PACKAGES", {("speech", "kokoro"): ("no_such_library",)})
    check = doctor._packages(profile)
    assert check.state == "fail"
    assert "no_such_library does not import: ModuleNotFoundError" in check.detail


def test_a_data_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("E3RG_DATA", str(tmp_path / "file" / "data"))
    check = doctor._data_folder()
    assert check.state == "fail"
    assert "E3RG_DATA" in check.mend


def test_looking_at_the_data_folder_does_not_make_it(tmp_path: Path) -> None:
    check = doctor._data_folder()
    assert check.state == "ok" and "can be made" in check.detail
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "data").mkdir()
    assert "is writable" in doctor._data_folder().detail
    assert list((tmp_path / "data").iterdir()) == []


def test_the_client_library_of_the_openai_engine_is_looked_for() -> None:
    assert "openai" in doctor._ENGINE_PACKAGES["dialogue", "openai"]


def test_a_free_port_and_one_that_another_program_has() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(0)
        port = other.getsockname()[1]
        taken = doctor._port("127.0.0.1", port)
        assert taken.state == "fail"
        assert "gateway.port" in taken.mend
    assert doctor._port("127.0.0.1", port).state == "ok"


def test_a_running_service_is_not_a_fault() -> None:
    class Healthy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Healthy) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        check = doctor._port("127.0.0.1", server.server_port)
        server.shutdown()
        thread.join()
    assert (check.state, "running" in check.detail) == ("ok", True)


@pytest.mark.parametrize(("available", "state"), [(8e9, "ok"), (3e9, "warn"), (1e9, "fail")])
def test_memory(available: float, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_memory_available", lambda: available)
    assert doctor._memory().state == state


def test_disk_counts_what_the_pull_will_write(tmp_path: Path) -> None:
    assert doctor._disk("disk", tmp_path / "not" / "yet", 0).state == "ok"
    assert doctor._disk("disk", tmp_path, 10**15).state == "fail"


def test_the_encoder_encodes() -> None:
    assert doctor._h264().state == "ok"
