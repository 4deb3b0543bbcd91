"""Memory: how people answered in like situations, and what this user told before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from e3rg.emotions.types import Emotion
from e3rg.tenancy import LOCAL


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A situation and a good reply to it, written for this project.

    Attributes:
        id: stable, e.g. ``grieving-03``.
        emotion: one of the 32 labels.
        situation: what a speaker says.
        reply: what a good listener answers.
        similarity: cosine similarity to the query (-1 to 1), 0 before retrieval.
    """

    id: str
    emotion: str
    situation: str
    reply: str
    similarity: float = 0.0


@dataclass(frozen=True, slots=True)
class Episode:
    """One earlier turn of this user.

    Attributes:
        id: unique.
        user: whose it is.
        tenant: whose user that is.
        conversation: where it was said.
        text: what the user said.
        reply: what was answered.
        emotion: one of the 32 labels.
        created: Unix time, seconds.
        similarity: cosine similarity to the query, 0 before retrieval.
    """

    id: str
    user: str
    conversation: str
    text: str
    reply: str
    emotion: str
    created: float
    similarity: float = 0.0
    tenant: str = LOCAL


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """What to look for.

    Attributes:
        text: the speaker's words.
        user: whose episodes may be seen, or None for none. The engine filters, never the caller.
        tenant: whose user that is.
        conversation: episodes of this conversation are left out (they are in the prompt already).
        emotion: prefers exemplars of like emotion, when it is known.
        exemplars: how many exemplars at most.
        episodes: how many episodes at most.
    """

    text: str
    user: str | None = None
    conversation: str | None = None
    emotion: Emotion | None = None
    exemplars: int = 2
    episodes: int = 2
    tenant: str = LOCAL


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What was found, most similar first."""

    exemplars: tuple[Exemplar, ...] = ()
    episodes: tuple[Episode, ...] = ()


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Vectors of texts.

    Attributes:
        vectors: shape (texts, dimension), rows of length 1.
        tokens: tokens that were read.
    """

    vectors: NDArray[np.float32]
    tokens: int


class MemoryEngine(Protocol):
    """Retrieval and storage of empathy memory."""

    async def retrieve(self, query: MemoryQuery) -> Retrieval:
        """Find exemplars and this user's episodes."""
        ...

    async def remember(self, episode: Episode) -> None:
        """Store one episode; visible to the next ``retrieve``."""
        ...

    async def embed(self, texts: tuple[str, ...]) -> Embeddings:
        """Embed texts as ``retrieve`` embeds its query; each is cut to the model's window."""
        ...

    async def forget(self, user: str, tenant: str = LOCAL) -> int:
        """Erase all episodes of a tenant's user; returns how many."""
        ...
