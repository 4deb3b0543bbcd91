"""Ids that this server gives to what it makes."""

from __future__ import annotations

import secrets


def new_id(kind: str) -> str:
    """A fresh id, e.g. ``turn_9f2c...``; 96 random bits, so that nobody guesses another's."""
    return f"{kind}_{secrets.token_hex(12)}"
