"""What the gateway asks of admission, and every answer that there can be.

The shape is that of llm-d's flow control (contracts, queue, policy, registry, finite outcomes): a
caller says what it needs, and gets exactly one decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum, StrEnum
from typing import Literal, Protocol


class Priority(IntEnum):
    """Classes; a lower one is served only when no higher one waits (with room for it)."""

    INTERACTIVE = 0
    STANDARD = 1
    BATCH = 2


@dataclass(frozen=True, slots=True)
class Spend:
    """What is really spent; whole numbers, so that sums are exact.

    Attributes:
        prompt_tokens: read by a language or embedding model.
        completion_tokens: written by the language model.
        audio_in_ms: milliseconds of sound heard.
        audio_out_ms: milliseconds of sound spoken.
        video_frames: frames rendered.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    audio_in_ms: int = 0
    audio_out_ms: int = 0
    video_frames: int = 0

    def __add__(self, other: Spend) -> Spend:
        return Spend(*(getattr(self, u) + getattr(other, u) for u in UNITS))

    def __sub__(self, other: Spend) -> Spend:
        return Spend(*(getattr(self, u) - getattr(other, u) for u in UNITS))


UNITS: tuple[str, ...] = tuple(each.name for each in fields(Spend))
"""The names of what can be spent, and so of what a quota can bound."""

Period = Literal["day", "month"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a tenant may do; None is no limit.

    Attributes:
        requests_per_minute: a token bucket of this size, refilled evenly.
        tokens_per_minute: the same for prompt and completion tokens, as estimated.
        concurrent_turns: turns and calls that run at once.
        concurrent_sessions: realtime sessions at once.
        priority: class of its requests; video jobs are always BATCH.
        weight: share of the capacity when tenants compete within a class.
        quota: unit (see UNITS) → most that is spent in a period.
        period: the quotas' period, in UTC.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_turns: int | None = None
    concurrent_sessions: int | None = None
    priority: Priority = Priority.INTERACTIVE
    weight: float = 1.0
    quota: Mapping[str, int] = field(default_factory=dict)
    period: Period = "month"


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to serve a request.

    Attributes:
        name: ``video``, ``still``, ``audio``, ``text``; for calls and sessions their kind.
        demand: pool → units held while it runs (the avatar's unit is frames per second).
        estimate: the most that it can spend; reserved, then settled.
    """

    name: str
    demand: Mapping[str, float]
    estimate: Spend = Spend()


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for a lease.

    Attributes:
        id: of the lease; the id of the turn or call, made by the gateway.
        tenant: who pays.
        limits: the tenant's.
        kind: sessions count against their own limit, and cost no request of the rate.
        offers: ways to serve it, the best first; more than one if it may be degraded.
        priority: its class.
        queue_s: the longest wait in the queue.
        degrade_s: after so much waiting a poorer offer is taken where there is room for it.
        holder: the gateway replica that will hold the lease.
    """

    id: str
    tenant: str
    limits: Limits
    kind: Literal["turn", "call", "session"]
    offers: tuple[Offer, ...]
    priority: Priority = Priority.INTERACTIVE
    queue_s: float = 5.0
    degrade_s: float = 1.0
    holder: str = ""


class Outcome(StrEnum):
    """Every end that a request for a lease can have."""

    ADMITTED = "admitted"
    RATE_LIMITED = "rate_limited"
    CONCURRENCY_LIMITED = "concurrency_limited"
    QUOTA_EXCEEDED = "quota_exceeded"
    QUEUE_FULL = "queue_full"
    QUEUE_TIMEOUT = "queue_timeout"
    NEVER_FITS = "never_fits"
    CANCELLED = "cancelled"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class RateState:
    """For the ``x-ratelimit-*`` headers; None where there is no such limit."""

    limit_requests: int | None = None
    remaining_requests: int | None = None
    reset_requests_s: float = 0.0
    limit_tokens: int | None = None
    remaining_tokens: int | None = None
    reset_tokens_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run.

    Attributes:
        id: the ask's.
        offer: index of the offer that was taken; above 0 it is degraded.
        ttl_s: it expires when it is not renewed for so many seconds.
        waited_s: time in the queue.
        rate: the tenant's rate after this request.
    """

    id: str
    offer: int
    ttl_s: float
    waited_s: float
    rate: RateState = RateState()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no lease; it cost nothing.

    Attributes:
        outcome: why; never ADMITTED.
        message: for the caller: what is exhausted, and what to do.
        retry_after_s: when it may go better.
        rate: the tenant's rate.
        unit: of QUOTA_EXCEEDED, what is used up.
    """

    outcome: Outcome
    message: str
    retry_after_s: float
    rate: RateState = RateState()
    unit: str | None = None


Decision = Lease | Refusal

HEARTBEATS = 10
"""Renewals within a lease's life: nine may be lost, and whoever is restarted knows soon."""


@dataclass(frozen=True, slots=True)
class Stats:
    """How things stand.

    Attributes:
        waiting: class → requests in the queue.
        leases: leases held.
        used: pool → units in use.
        capacity: pool → units that there are.
        reserved: tenant → what is reserved of its quotas.
        expired: leases that ran out since the start.
    """

    waiting: Mapping[str, int]
    leases: int
    used: Mapping[str, float]
    capacity: Mapping[str, float]
    reserved: Mapping[str, Spend]
    expired: int


class Admission(Protocol):
    """Gives leases. One instance for the whole system, so that no limit is multiplied."""

    async def admit(self, ask: Ask) -> Decision:
        """Wait for a lease or a refusal; cancelling leaves nothing behind."""
        ...

    async def settle(self, lease: str) -> None:
        """Give a lease back; what it has spent is read from the usage records.

        Also of a lease that is unknown or was never given: then it never will be.
        """
        ...

    async def renew(self, holder: str, held: Sequence[tuple[Ask, int]]) -> None:
        """Keep leases, and re-establish those that admission has forgotten (it was restarted).

        Args:
            holder: the gateway replica; a replica that stays silent loses its leases.
            held: all that it holds: what was asked, and the index of the offer.
        """
        ...

    async def stats(self) -> Stats:
        """How things stand; for metrics and tests."""
        ...
