"""Stored files as answers, whole or in part (RFC 9110 sections 13 and 14)."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from typing import BinaryIO

from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from e3rg.errors import E3RGError
from e3rg.gateway.faults import answer

_CHUNK = 64 * 1024
_SEND_S = 120.0
"""A client that takes nothing for so many seconds is as good as gone; it can ask for the rest."""
_MAX_RANGES = 16
_SPEC = re.compile(r"(\d{0,18})-(\d{0,18})")


class WholeFile(FileResponse):
    """A small file of our own, always sent whole: to ranges, a server need not listen (RFC 9110
    section 14.2), and FileResponse answers bad ones in plain text.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        self.headers["accept-ranges"] = "none"
        headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)


class StoredFile(Response):
    """Sends a file, or the one range of it that was asked for.

    Starlette's FileResponse answers bad ranges in plain text, refuses units that it does not know
    (which RFC 9110 section 14.2 tells to ignore), and fails if the file is deleted meanwhile; here
    the file is open before the answer begins.

    Args:
        path: the file.
        media_type: Content-Type.
        missing: the answer if there is no such file.
        headers: further headers.
    """

    def __init__(
        self,
        path: Path,
        media_type: str,
        missing: E3RGError,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(None, media_type=media_type, headers=headers)
        del self.headers["content-length"]
        self._path = path
        self._missing = missing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200, 206, 404 (``missing``) or 416 (``range_not_satisfiable``)."""
        try:
            file = await asyncio.to_thread(self._path.open, "rb")
        except FileNotFoundError as error:
            raise self._missing from error
        try:
            await self._send(file, scope, receive, send)
        finally:
            file.close()

    async def _send(self, file: BinaryIO, scope: Scope, receive: Receive, send: Send) -> None:
        stat = os.fstat(file.fileno())
        size = stat.st_size
        self.headers["accept-ranges"] = "bytes"
        self.headers["last-modified"] = formatdate(stat.st_mtime, usegmt=True)
        self.headers["etag"] = f'"{stat.st_mtime_ns:x}-{size:x}"'
        start, end = 0, size
        ranges = self._ranges(Headers(scope=scope), size) if scope["method"] == "GET" else None
        if ranges == []:
            error = E3RGError(
                "range_not_satisfiable",
                f"the file has {size} bytes, and none of them is in the range asked for",
                param="Range",
                status=416,
            )
            response = answer(error)
            response.headers["content-range"] = f"bytes */{size}"
            await response(scope, receive, send)
            return
        # A server may send the whole instead of several parts (section 15.3.7.2, 14.2).
        if ranges is not None and len(ranges) == 1:
            start, end = ranges[0]
            self.status_code = 206
            self.headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
        self.headers["content-length"] = str(end - start)
        head = {"type": "http.response.start", "status": self.status_code}
        await send({**head, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            start = end
        file.seek(start)
        while start < end:
            part = await asyncio.to_thread(file.read, min(_CHUNK, end - start))
            start += len(part)
            try:
                async with asyncio.timeout(_SEND_S):
                    more = {"type": "http.response.body", "body": part, "more_body": True}
                    await send(more)
            except TimeoutError as error:
                # What was promised cannot be delivered: the server closes the connection.
                raise ConnectionAbortedError("the client takes nothing") from error
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _ranges(self, headers: Headers, size: int) -> list[tuple[int, int]] | None:
        """The ranges (start, end) that exist; None to ignore the header, as bad ones are."""
        condition = headers.get("if-range")
        if condition is not None and condition not in (
            self.headers["etag"],
            self.headers["last-modified"],
        ):
            return None
        unit, separator, given = headers.get("range", "").partition("=")
        specs = [spec.strip() for spec in given.split(",") if spec.strip()]
        if not separator or unit.strip().lower() != "bytes" or not 0 < len(specs) <= _MAX_RANGES:
            return None
        ranges = []
        for spec in specs:
            match = _SPEC.fullmatch(spec)
            if match is None or spec == "-":
                return None
            first, last = match.groups()
            if not first:
                start, end = max(size - int(last), 0), size
            else:
                start, end = int(first), min(int(last) + 1, size) if last else size
                if last and int(last) < start:
                    return None
            if start < end:
                ranges.append((start, end))
        return ranges
