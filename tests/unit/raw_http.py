"""HTTP/1.1 over a bare socket: what no client library would send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_TIMEOUT_S = 20


@dataclass(frozen=True)
class Answer:
    """The first answer of a connection."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> Any:
        return json.loads(self.body)["error"]


def request(
    method: str | bytes,
    path: str | bytes,
    body: bytes = b"",
    kind: str | bytes = "application/json",
    *more: str | bytes,
    length: int | None = None,
) -> bytes:
    """One request that asks for the connection to be closed; ``length`` None is the body's own."""
    lines = [
        b"%s %s HTTP/1.1" % (_bytes(method), _bytes(path)),
        b"Host: localhost",
        b"Connection: close",
        *map(_bytes, more),
    ]
    if body or length is not None:
        lines += [
            b"Content-Type: " + _bytes(kind),
            b"Content-Length: %d" % (len(body) if length is None else length),
        ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


@asynccontextmanager
async def connection(
    address: str,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    url = urlsplit(address)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def talk(address: str, data: bytes, *, end: bool = False) -> bytes:
    """Send, and read until the server closes; ``end`` closes the sending side first."""
    async with asyncio.timeout(_TIMEOUT_S), connection(address) as (reader, writer):
        writer.write(data)
        if end:
            writer.write_eof()
        try:
            await writer.drain()
            return await reader.read()
        except ConnectionError:  # closed before all was sent, which is an answer too
            return b""


async def first_answer(reader: asyncio.StreamReader) -> bytes:
    """Read one answer of a known length, and no further.

    What follows may be a reset: a server that closes while its client still sends cannot do better,
    and a reader that waits for the end would lose the answer with it.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(int(parsed(head).headers["content-length"]))


async def ask(address: str, data: bytes, *, end: bool = False) -> Answer:
    """Send a request, and parse the answer to it."""
    return parsed(await talk(address, data, end=end))


def parsed(data: bytes) -> Answer:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return Answer(int(first.split()[1]), headers, body)
