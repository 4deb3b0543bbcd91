"""What the command line says when things go wrong: one line and exit code 1."""

from __future__ import annotations

import asyncio
import http.server
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console
from scripted import Script

from e3rg import cli, talk, up
from e3rg.config import ConfigError, load_profile
from e3rg.errors import E3RGError
from e3rg.inprocess import served
from e3rg.listen import base_url, free_port


def failure(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str
) -> str:
    monkeypatch.setattr(sys, "argv", ["e3rg", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    said = capfd.readouterr().err.strip()
    assert said.startswith("error: ") and "\n" not in said
    return said


@contextmanager
def answering(
    status: int, body: bytes, kind: str = "text/event-stream", missing: int = 0
) -> Iterator[str]:
    """A server that answers every POST alike; ``missing`` bytes of the length it names."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body) + missing))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


CREATED = b'event: turn.created\ndata: {"id": "turn_1", "conversation": "conv_1"}\n\n'


@pytest.mark.parametrize(
    ("status", "body", "kind", "missing", "code"),
    [
        (502, b"<html>Bad Gateway</html>", "text/html", 0, "bad_answer"),
        (502, b'{"detail": "no"}', "application/json", 0, "bad_answer"),
        (200, b"<html>Hello</html>", "text/html", 0, "reply_incomplete"),
        (200, CREATED, "text/event-stream", 0, "reply_incomplete"),
        (200, CREATED, "text/event-stream", 100, "connection_lost"),
        (200, b"event: text.delta\ndata: {cut\n\n", "text/event-stream", 0, "bad_answer"),
    ],
)
def test_what_a_server_may_answer(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    status: int,
    body: bytes,
    kind: str,
    missing: int,
    code: str,
) -> None:
    with answering(status, body, kind, missing) as address:
        said = failure(monkeypatch, capfd, "talk", "--server", address, "hi")
    assert f"({code})" in said and address in said


def test_no_server(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    address = f"http://127.0.0.1:{free_port('127.0.0.1', 0)}"
    assert "(server_unreachable)" in failure(monkeypatch, capfd, "talk", "--server", address, "hi")
    said = failure(monkeypatch, capfd, "talk", "--server", "localhost:8000", "hi")
    assert "(server_invalid)" in said


def test_the_output_is_checked_before_the_turn(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for output in (tmp_path / "none" / "x.mp4", tmp_path):
        folder = output if output != tmp_path else tmp_path / "x.wav"
        if output == tmp_path:
            folder.mkdir()
        # The server is not asked: it would be unreachable.
        said = failure(
            monkeypatch, capfd, "talk", "--server", "http://127.0.0.1:9", "-o", str(folder), "hi"
        )
        assert "--output" in said


def test_missing_models_are_found_before_ray_starts(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("E3RG_MODELS", str(tmp_path))
    monkeypatch.setattr(up.ray, "init", lambda **_: pytest.fail("Ray was started"))
    assert "e3rg models pull" in failure(monkeypatch, capfd, "up", "--port", "0")


def test_a_taken_port_is_found_before_ray_starts(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(up, "check_models", lambda profile: None)
    monkeypatch.setattr(up.ray, "init", lambda **_: pytest.fail("Ray was started"))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"port {port}" in failure(monkeypatch, capfd, "up", "--port", str(port))


def test_a_ray_that_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def init(**_: object) -> None:
        raise Exception("The current node timed out during startup.\nMore.")

    monkeypatch.setattr(up, "check_models", lambda profile: None)
    monkeypatch.setattr(up.ray, "init", init)
    assert "timed out during startup" in failure(monkeypatch, capfd, "up", "--port", "0")


def test_a_turn_ends_with_the_conversation_to_go_on_with(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))

    async def run() -> talk.Reply:
        async with served(load_profile("local"), Script().stages()) as address:
            monkeypatch.setattr(
                sys, "argv", ["e3rg", "talk", "--server", address, "-o", f"{tmp_path}/x.wav", "hi"]
            )
            await asyncio.to_thread(lambda: cli.app(standalone_mode=False))
            again = {"text": "And more.", "conversation": "", "reply_with": "text"}
            shown = capfd.readouterr().out
            again["conversation"] = shown.split("--conversation ")[1].split()[0]
            return await talk.talk(address, again, {}, Console(quiet=True))

    reply = asyncio.run(run())
    assert reply.completed and reply.conversation.startswith("conv_")
    assert (tmp_path / "x.wav").stat().st_size > 1000


async def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(E3RGError, match="cannot be written") as caught:
        await talk.save("http://127.0.0.1:9", talk.Reply(), tmp_path / "gone" / "x.wav")
    assert caught.value.code == "output_failed"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "::"])
def test_a_port_is_free_until_somebody_has_it(host: str) -> None:
    try:
        port = free_port(host, 0)
    except OSError:
        assert ":" in host and not Path("/proc/net/if_inet6").exists()
        return
    assert port > 0 and free_port(host, port) == port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as other:
        other.bind((host, port))
        other.listen()
        with pytest.raises(OSError, match="in use"):
            free_port(host, port)


def test_no_host() -> None:
    with pytest.raises(OSError, match="not the name"):
        free_port("x" * 300, 0)


def test_addresses_to_open() -> None:
    assert base_url("0.0.0.0", 1) == "http://127.0.0.1:1"
    assert base_url("::", 1) == "http://[::1]:1"
    assert base_url("fe80::2", 1) == "http://[fe80::2]:1"
    assert "every address" in cli._welcome("0.0.0.0", base_url("0.0.0.0", 1))
    assert "every address" not in cli._welcome("127.0.0.1", base_url("127.0.0.1", 1))


def test_a_server_that_died_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "_HEALTH_S", 0.02)
    monkeypatch.setattr(up.signal, "signal", lambda *_: None)
    with pytest.raises(E3RGError, match="does not answer any more"):
        up.wait_for_signal(f"http://127.0.0.1:{free_port('127.0.0.1', 0)}")


def test_what_a_replica_says() -> None:
    message = (
        "The deployment failed to start 3 times in a row. Error:\n"
        "ray::ServeReplica:e3rg:speech.initialize_and_get_metadata() (pid=1)\n"
        "  File x, line 1, in load\n"
        "    raise ConfigError(...)\n"
        "e3rg.config.ConfigError: engine 'kokoro': unexpected keyword argument 'thread'\n"
    )
    assert up.replica_fault(message) == "engine 'kokoro': unexpected keyword argument 'thread'"
    assert up.replica_fault("ValueError: no") == "ValueError: no"
    assert up.replica_fault("") == ""


def test_a_profile_of_ones_own_has_no_list_of_models(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("E3RG_MODELS", str(tmp_path))
    up.check_models(load_profile("local").model_copy(update={"name": "mine"}))
    with pytest.raises(ConfigError, match="models pull"):
        up.check_models(load_profile("local"))
