"""Bytes inside JSON: base64 (RFC 4648), and pictures in data URLs (RFC 2397)."""

from __future__ import annotations

import base64
import re

_IMAGE_URL = re.compile(r"data:image/[^,]*;base64,", re.IGNORECASE)


def encoded(data: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(data).decode("ascii")


def decoded(text: str) -> bytes | None:
    """The bytes of base64 text; None if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def image_in(url: str) -> str | None:
    """The base64 text of ``data:image/...;base64,...``; None for any other URL."""
    head = _IMAGE_URL.match(url)
    return None if head is None else url[head.end() :]
