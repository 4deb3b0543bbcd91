"""Request bodies: bounded while they arrive, files on disk and never in memory whole."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from e3rg.errors import E3RGError, is_disk_full
from e3rg.gateway.strict_json import read_json

MAX_JSON_BYTES = 1_000_000
_MAX_FIELDS = 32
_LINGER_S = 2.0


class BodyLimit:
    """ASGI middleware: a body larger than ``limit`` bytes, or one that drips, is cut off.

    Args:
        app: the application.
        limit: bytes.
        timeout_s: seconds within which a body arrives whole.
    """

    def __init__(self, app: ASGIApp, limit: int, timeout_s: float = 60.0) -> None:
        self._app = app
        self._limit = limit
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what arrives (https://asgi.readthedocs.io/en/latest/specs/www.html)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + self._timeout_s
        # What is announced as too large need not be sent at all (Expect: 100-continue).
        announced = dict(scope["headers"]).get(b"content-length", b"")
        too_large = announced.isdigit() and int(announced[:20]) > self._limit
        received = 0
        complete = False

        async def bounded() -> Message:
            nonlocal received, complete
            if complete:  # what comes now is the disconnect, which may take as long as it likes
                return await receive()
            if too_large:
                raise self._too_large()
            try:
                async with asyncio.timeout_at(due):
                    message = await receive()
            except TimeoutError as error:
                raise E3RGError(
                    "body_timeout",
                    f"the body did not arrive within {self._timeout_s:g} s; send it faster",
                    status=408,
                ) from error
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > self._limit:
                raise self._too_large()
            return message

        async def lingering(message: Message) -> None:
            nonlocal complete
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            if complete or not last:
                await send(message)
                return
            # Closing a connection on which something still comes would reset it, and the client
            # would never see the answer (RFC 9112 section 9.6).
            await send({**message, "more_body": True})
            if not too_large or b"expect" not in dict(scope["headers"]):
                await _discard(receive)
            complete = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, bounded, lingering)

    def _too_large(self) -> E3RGError:
        return E3RGError(
            "body_too_large",
            f"the body has more than {self._limit} bytes; send a shorter or smaller file",
            status=413,
        )


async def _discard(receive: Receive) -> None:
    """Take the rest of a body, for a short while."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            while (await receive()).get("more_body", False):
                pass


async def read_body(
    request: Request,
    stack: AsyncExitStack,
    max_file_bytes: int,
    max_json_bytes: int = MAX_JSON_BYTES,
) -> tuple[dict[str, Any], dict[str, UploadFile]]:
    """Read JSON or multipart into fields and files; the files close with the stack.

    Raises:
        E3RGError: ``unsupported_media_type``, ``invalid_json``, ``invalid_multipart``;
            ``client_closed`` (499), which nobody receives.
    """
    kind = _content_type(request)
    try:
        if kind == "multipart/form-data":
            return await _read_form(request, stack, max_file_bytes)
        if kind == "application/json" or kind.endswith("+json"):
            return await _read_json(request, max_json_bytes), {}
    except ClientDisconnect as error:
        raise E3RGError("client_closed", "the client left within its body", status=499) from error
    raise E3RGError(
        "unsupported_media_type",
        f"Content-Type {kind!r} is not taken; send application/json or multipart/form-data",
        status=415,
    )


async def read_fields(request: Request, max_json_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """Read a body that has no files.

    Raises:
        E3RGError: as read_body.
    """
    async with AsyncExitStack() as stack:
        fields, _ = await read_body(request, stack, 0, max_json_bytes)
    return fields


def refuse_other_files(files: Mapping[str, UploadFile], *known: str) -> None:
    """Refuse files in fields that a route does not have.

    Raises:
        E3RGError: ``unknown_field``.
    """
    for name in sorted(set(files) - set(known)):
        raise E3RGError(
            "unknown_field",
            f"there is no file field {name!r}; use {' or '.join(known)}",
            param=name,
        )


def is_form(request: Request) -> bool:
    """Whether the body is a form, whose values are all text."""
    return _content_type(request) == "multipart/form-data"


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "application/json").split(";")[0].strip().lower()


async def _read_json(request: Request, max_bytes: int) -> dict[str, Any]:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > max_bytes:
            raise E3RGError(
                "body_too_large",
                f"a JSON body may have {max_bytes} bytes; send media as multipart files",
                status=413,
            )
    try:
        fields = read_json(data.decode("utf-8"))
    except ValueError as error:
        raise E3RGError("invalid_json", f"the body is not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise E3RGError("invalid_json", 'the body must be a JSON object such as {"text": "Hello"}')
    return fields


async def _read_form(
    request: Request, stack: AsyncExitStack, max_file_bytes: int
) -> tuple[dict[str, Any], dict[str, UploadFile]]:
    try:
        form = await stack.enter_async_context(
            request.form(max_files=4, max_fields=_MAX_FIELDS, max_part_size=MAX_JSON_BYTES)
        )
    except HTTPException as error:  # what Starlette makes of a MultiPartException
        raise E3RGError(
            "invalid_multipart", f"the multipart body cannot be read: {error.detail}"
        ) from error
    except (MultiPartException, ValueError, KeyError) as error:
        raise E3RGError(
            "invalid_multipart", f"the multipart body cannot be read: {error}"
        ) from error
    except OSError as error:
        raise disk_error(error) from error
    fields: dict[str, Any] = {}
    files: dict[str, UploadFile] = {}
    for name, value in form.multi_items():
        if not name.isprintable() or len(name) > 64:
            raise E3RGError("invalid_multipart", "a field's name is not printable, or too long")
        if name in files or (name in fields and isinstance(value, UploadFile)):
            raise _twice(name)
        if isinstance(value, UploadFile):
            if value.size is not None and value.size > max_file_bytes:
                raise E3RGError(
                    f"{name}_too_large",
                    f"{name} has {value.size} bytes; at most {max_file_bytes} are taken",
                    param=name,
                    status=413,
                )
            files[name] = value
        else:
            _put(fields, name, value)
    return fields, files


def _put(fields: dict[str, Any], name: str, value: str) -> None:
    """Add a form field; forms write lists as ``name[]``, again for each item, and the members of
    objects as ``name[key]``.
    """
    bracket = re.fullmatch(r"(\w+)\[(\w*)\]", name)
    if bracket is None:
        if name in fields:
            raise _twice(name)
        fields[name] = value
        return
    name, key = bracket.groups()
    held = fields.setdefault(name, {} if key else [])
    if isinstance(held, list) and not key:
        held.append(value)
    elif isinstance(held, dict) and key and key not in held:
        held[key] = value
    else:
        raise _twice(name)


def _twice(name: str) -> E3RGError:
    return E3RGError("duplicate_field", f"{name} is given twice; give it once", param=name)


@asynccontextmanager
async def saved(upload: UploadFile) -> AsyncIterator[Path]:
    """An upload as a file of its own, gone when the block ends.

    Raises:
        E3RGError: ``disk_full``.
    """
    folder = Path(tempfile.mkdtemp(prefix="e3rg-"))
    try:
        path = folder / "upload"
        try:
            with path.open("wb") as file:
                while chunk := await upload.read(1 << 20):
                    await asyncio.to_thread(file.write, chunk)
        except OSError as error:
            raise disk_error(error) from error
        yield path
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)


def disk_error(error: OSError) -> E3RGError:
    """An OSError while storing an upload, as an answer."""
    if is_disk_full(error):
        return E3RGError(
            "disk_full", "the server's disk is full; free space and try again", status=507
        )
    return E3RGError("storage_failed", "the server could not store the upload", status=500)
