"""A line of a conversation, as every stage sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One line; the roles are OpenAI's."""

    role: Role
    content: str
