"""``e3rg talk``: one turn with a server, or with engines in this process, shown as it comes."""

from __future__ import annotations

import asyncio
import base64
import json
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.markup import escape

from e3rg.config import Profile
from e3rg.errors import E3RGError
from e3rg.inprocess import local_server
from e3rg.listen import base_url


@dataclass(slots=True)
class Reply:
    """What came of a turn."""

    turn: str = ""
    conversation: str = ""
    text: str = ""
    timings: dict[str, float] = field(default_factory=dict)
    pcm: bytearray = field(default_factory=bytearray)
    sample_rate: int = 0
    completed: bool = False


@asynccontextmanager
async def connect(server: str | None, profile: Profile, console: Console) -> AsyncIterator[str]:
    """The address of a server that answers, or of one started in this process.

    Args:
        server: address of a running server; None looks at the profile's own address first.
        profile: what to start if nothing runs there.
        console: where progress is shown.
    """
    address = (server or base_url(profile.gateway.host, profile.gateway.port)).rstrip("/")
    if server is not None or await _answers(address):
        yield address
        return
    console.print(f"[dim]nothing answers at {address}; loading the models here[/]")
    with console.status("loading") as status:
        async with local_server(
            profile, loaded=lambda stage: status.update(f"loaded {stage}")
        ) as own:
            status.stop()
            yield own


async def talk(
    address: str, fields: dict[str, str], files: dict[str, Path], console: Console
) -> Reply:
    """Say something and show the reply as it comes.

    Args:
        address: of the server.
        fields: fields of POST /v1/turns.
        files: ``audio``, ``video`` and ``portrait``.
        console: where it is shown.

    Raises:
        E3RGError: what the server answered; ``server_unreachable``, ``connection_lost``,
            ``bad_answer`` if it is no answer of ours; ``reply_incomplete``.
    """
    reply = Reply()
    with ExitStack() as stack:
        stack.enter_context(_reaching(address))
        # A multipart body even without files: fields and files go the same way.
        parts: list[tuple[str, Any]] = [(name, (None, value)) for name, value in fields.items()]
        for name, path in files.items():
            parts.append((name, (path.name, stack.enter_context(path.open("rb")))))
        timeout = httpx.Timeout(30, read=180)
        async with (
            httpx.AsyncClient(timeout=timeout) as client,
            client.stream("POST", f"{address}/v1/turns", files=parts) as response,
        ):
            if response.status_code != 200:
                await response.aread()
                raise _error(response.json(), response.status_code)
            async for event, data in _events(response):
                _show(event, data, reply, console)
    if not reply.completed:
        raise E3RGError(
            "reply_incomplete",
            f"the answer of {address} ended before the reply did; say it again",
            status=502,
        )
    return reply


async def save(address: str, reply: Reply, output: Path) -> None:
    """Write the reply as a WAV file or, for every other name, as MP4.

    Raises:
        E3RGError: as ``talk``; ``output_failed`` if the file cannot be written.
    """
    try:
        if output.suffix == ".wav":
            await asyncio.to_thread(_write_wav, reply, output)
            return
        with _reaching(address):
            async with httpx.AsyncClient(timeout=60) as client:
                response = await client.get(f"{address}/v1/turns/{reply.turn}/video")
            if response.status_code != 200:
                raise _error(response.json(), response.status_code)
        await asyncio.to_thread(output.write_bytes, response.content)
    except OSError as error:
        raise E3RGError(
            "output_failed", f"{output} cannot be written: {error.strerror}; name another file"
        ) from error


def _write_wav(reply: Reply, output: Path) -> None:
    # Not by name: a Wave_write that could not open its file complains once more when collected.
    with output.open("wb") as raw, wave.open(raw, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(reply.sample_rate or 24_000)
        file.writeframes(bytes(reply.pcm))


@contextmanager
def _reaching(address: str) -> Iterator[None]:
    """Say in a sentence how a server fails that is not there, goes away, or is not ours."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise E3RGError(
            "server_unreachable",
            f"nothing answers at {address}; start a server with `e3rg up`, or leave --server out",
            status=503,
        ) from error
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise E3RGError(
            "server_invalid",
            f"--server {address} is no address; give one such as http://127.0.0.1:8000",
        ) from error
    except httpx.HTTPError as error:
        raise E3RGError(
            "connection_lost",
            f"the connection to {address} broke ({type(error).__name__}); say it again",
            status=502,
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise E3RGError(
            "bad_answer",
            f"what answers at {address} is not e3rg, or another version of it; check --server",
            status=502,
        ) from error


async def _answers(address: str) -> bool:
    try:
        async with httpx.AsyncClient(timeout=2) as client:
            answer = await client.get(f"{address}/healthz")
        return answer.status_code == 200 and answer.json() == {"status": "ok"}
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return False


async def _events(response: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def _show(event: str, data: dict[str, Any], reply: Reply, console: Console) -> None:
    match event:
        case "turn.created":
            reply.turn, reply.conversation = data["id"], data["conversation"]
        case "transcript":
            console.print(f"[dim]heard:[/] {escape(data['text'])}")
        case "emotion":
            console.print(
                f"[dim]emotion:[/] {data['label']} ({data['category']}, "
                f"{data['confidence']:.0%} sure), listener {data['listener']['expression']}"
            )
        case "memory":
            used = [item["id"] for item in data["exemplars"] + data["episodes"]]
            console.print(f"[dim]memory:[/] {', '.join(used) or 'nothing'}")
        case "text.delta":
            reply.text += data["text"]
            console.print(escape(data["text"]), end="", style="bold", highlight=False)
        case "audio.chunk":
            reply.pcm += base64.b64decode(data["data"])
            reply.sample_rate = data["sample_rate"]
        case "degraded":
            console.print(f"\n[yellow]{data['given']} in place of {data['wanted']}:[/] ", end="")
            console.print(escape(data["message"]))
        case "turn.completed":
            reply.completed = True
            reply.timings = data["timings"]
            console.print()
            shown = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in reply.timings.items())
            console.print(f"[dim]{shown}[/]")
        case "error":
            raise _error(data, 500)


def _error(body: dict[str, Any], status: int) -> E3RGError:
    error = body["error"]
    return E3RGError(error["code"], error["message"], param=error["param"], status=status)
