"""One HTTP download that survives broken connections and interrupted runs.

Continues with ``Range`` requests (RFC 9110, section 14) from what the partial file already holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from e3rg.errors import is_disk_full
from e3rg.models.errors import SourceError, WrongBytesError

#: Called with bytes so far and, when known, bytes in all.
Report = Callable[[int, int | None], None]

_BREAKS = 50
_BREAKS_WITHOUT_PROGRESS = 3
_TIMEOUT = httpx.Timeout(30, connect=5)


class UnreachableError(SourceError):
    """No connection could be made; asking the same host again is a waste of time."""


def client() -> httpx.Client:
    """A client with bounded waits that honours the proxy settings of the environment."""
    return httpx.Client(timeout=_TIMEOUT, follow_redirects=True)


def download(
    http: httpx.Client,
    url: str,
    part: Path,
    report: Report,
    *,
    size: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Fetch a URL into a file, continuing at its end if it is there already.

    The file is kept when the network fails, so that the next call goes on from there, and removed
    when the disk is full.

    Args:
        http: the client.
        url: an HTTP(S) address.
        part: the file to fill.
        report: told of each chunk.
        size: bytes expected, if known; more are refused.
        headers: sent with each request.

    Raises:
        UnreachableError: if no connection can be made.
        SourceError: for any other answer than the bytes.
        OSError: if the file cannot be written.
    """
    idle = 0
    for _ in range(_BREAKS):
        before = _length(part)
        try:
            return _receive(http, url, part, report, size, dict(headers or {}))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise UnreachableError(f"no connection: {error}") from error
        except httpx.TransportError as error:
            idle = 0 if _length(part) > before else idle + 1
            if idle >= _BREAKS_WITHOUT_PROGRESS:
                raise SourceError(f"the connection broke: {error!r}") from error
            time.sleep(0.2 * idle)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SourceError(f"{error}") from error
        except OSError as error:
            if is_disk_full(error):
                part.unlink(missing_ok=True)
            raise
    raise SourceError(f"the connection broke {_BREAKS} times")


def _receive(
    http: httpx.Client,
    url: str,
    part: Path,
    report: Report,
    size: int | None,
    headers: dict[str, str],
) -> None:
    have = _length(part)
    if size is not None and have > size:
        part.unlink()
        have = 0
    if size is not None and have == size:
        return
    # A compressed transfer would make byte offsets meaningless.
    headers["Accept-Encoding"] = "identity"
    if have:
        headers["Range"] = f"bytes={have}-"
    with http.stream("GET", url, headers=headers) as answer:
        if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            part.unlink()
            raise httpx.ReadError("the server refused to continue; starting again")
        if answer.status_code not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
            raise SourceError(f"HTTP {answer.status_code} {answer.reason_phrase}")
        # A server without ranges answers 200 and sends everything again.
        continued = answer.status_code == httpx.codes.PARTIAL_CONTENT
        if continued and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise SourceError(f"asked for bytes from {have}, got another range")
        done = have if continued else 0
        length = answer.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else size
        with part.open("ab" if continued else "wb") as file:
            for (
                chunk
            ) in answer.iter_raw():  # as it arrives: a buffer would be lost with the connection
                done += len(chunk)
                if size is not None and done > size:
                    raise WrongBytesError(f"more than the {size} bytes of the file")
                file.write(chunk)
                report(done, total)


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
