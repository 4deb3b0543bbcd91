"""``Idempotency-Key``: a request sent again is answered with what the first one made.

As draft-ietf-httpapi-idempotency-key-header-07 has it: a key stands for one request; while that
runs, a second gets 409; another request under the same key gets 422.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from fastapi import Request
from starlette.datastructures import UploadFile

from e3rg.errors import E3RGError
from e3rg.records.idempotency import IdempotencyRow, IdempotencyStore

HEADER = "Idempotency-Key"
_MAX_KEY = 255
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request under a key.

    Attributes:
        row: who has the key.
        first: whether that is this request.
    """

    row: IdempotencyRow
    first: bool


class Idempotency:
    """Takes keys for requests.

    Args:
        store: the keys.
        running_s: a request that has left no record is under way for so long at most.
    """

    def __init__(self, store: IdempotencyStore, running_s: float) -> None:
        self._store = store
        self._running_s = running_s

    async def begin(
        self,
        request: Request,
        tenant: str,
        fingerprint: Callable[[], Awaitable[str]],
        target: str,
    ) -> Attempt | None:
        """Take a request's key, if it has one.

        Args:
            request: may have the header.
            tenant: whose; keys of two tenants never meet.
            fingerprint: makes what ``fingerprint`` makes; called only where there is a key.
            target: id of what the request will make.

        Raises:
            E3RGError: ``invalid_idempotency_key``, ``idempotency_key_reused`` (422).
        """
        key = request.headers.get(HEADER)
        if key is None:
            return None
        if not (0 < len(key) <= _MAX_KEY and key.isascii() and key.isprintable()):
            raise E3RGError(
                "invalid_idempotency_key",
                f"{HEADER} must have 1 to {_MAX_KEY} printable ASCII characters, such as a UUID",
                param=HEADER,
            )
        path = f"{request.method} {request.url.path}\n{await fingerprint()}"
        whole = hashlib.sha256(path.encode()).hexdigest()
        row = await self._store.begin(tenant, key, whole, target)
        return Attempt(row, row.target == target)

    async def retry(self, attempt: Attempt, target: str) -> None:
        """Take the key over from a request that has failed, was cancelled or got lost.

        Raises:
            E3RGError: ``idempotency_in_progress`` (409) if another one does so already.
        """
        if not await self._store.take_over(attempt.row, target):
            raise in_progress()
        attempt.row.target = target

    def lost(self, attempt: Attempt) -> bool:
        """Whether a request that has left no record cannot be running any more."""
        return time.time() - attempt.row.created > self._running_s

    @asynccontextmanager
    async def kept(self, attempt: Attempt | None) -> AsyncIterator[None]:
        """Free the key if the block fails, so that the request may be sent again."""
        try:
            yield
        except BaseException:
            if attempt is not None:
                # Shielded: the client may have left. In vain, the key is taken over later.
                with suppress(E3RGError, asyncio.CancelledError):
                    await asyncio.shield(self._store.give_back(attempt.row))
            raise


def in_progress() -> E3RGError:
    """The answer while the first request runs."""
    return E3RGError(
        "idempotency_in_progress",
        f"the first request with this {HEADER} is still being answered; try again shortly",
        param=HEADER,
        status=409,
        retry_after=2,
    )


async def fingerprint(fields: str, files: Mapping[str, UploadFile]) -> str:
    """What a request asks for, in one word.

    Args:
        fields: its fields, in a canonical form.
        files: its uploads; they are read, and rewound.
    """
    digest = hashlib.sha256(fields.encode())
    for name in sorted(files):
        digest.update(f"\n{name}\n".encode())
        await files[name].seek(0)
        while part := await files[name].read(_CHUNK):
            digest.update(part)
        await files[name].seek(0)
    return digest.hexdigest()
