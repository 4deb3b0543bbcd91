"""The one error type that crosses stages and becomes an API answer.

The wire form is OpenAI's: ``{"error": {"message", "type", "param", "code"}}``
(https://platform.openai.com/docs/guides/error-codes).
"""

from __future__ import annotations

import errno
from typing import Any

# EFBIG and EDQUOT are the limits of a user rather than of the disk; the answer is the same.
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class E3RGError(Exception):
    """A failure that a caller can act on.

    Args:
        code: stable, snake_case identifier; part of the API.
        message: one sentence that names the field and the fix.
        param: the request field at fault, or None when no field is.
        status: the HTTP status that carries it.
        retry_after: seconds after which a retry makes sense (429 and 503).
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        status: int = 400,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.status = status
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions cross Ray handles by pickle, which drops keyword-only arguments by default.
        return (
            _rebuild,
            (type(self), self.code, self.message, self.param, self.status, self.retry_after),
        )

    @property
    def kind(self) -> str:
        """OpenAI's ``type`` for this status."""
        if self.status == 429:
            return "rate_limit_error"
        return "invalid_request_error" if self.status < 500 else "server_error"

    def to_json(self) -> dict[str, Any]:
        """The body of an error answer."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }


def internal_error(what: str, name: str) -> E3RGError:
    """The answer to a failure that nobody foresaw.

    Args:
        what: what failed, e.g. ``request``.
        name: the id under which the log holds the cause.
    """
    message = f"the {what} failed inside the server; name {name} in your report"
    return E3RGError("internal_error", message, status=500)


def is_disk_full(error: OSError) -> bool:
    """Whether a write failed because a disk, a quota or a file-size limit is used up (errno(3))."""
    return error.errno in _DISK_FULL


def _rebuild(
    cls: type[E3RGError],
    code: str,
    message: str,
    param: str | None,
    status: int,
    retry_after: float | None,
) -> E3RGError:
    error = cls.__new__(cls)
    E3RGError.__init__(error, code, message, param=param, status=status, retry_after=retry_after)
    return error
