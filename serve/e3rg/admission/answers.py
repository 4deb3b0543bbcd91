"""Refusals, in words that say what is exhausted and what to do."""

from __future__ import annotations

import math

from e3rg.admission.capacity import Capacity
from e3rg.admission.contracts import Ask, Limits, Outcome, RateState, Refusal

_RETRY_S = 2.0
_NEVER_S = 3600.0
"""Retry-After has no word for "not until somebody changes the limits"."""


def cancelled() -> Refusal:
    """Whoever asked is gone."""
    return Refusal(Outcome.CANCELLED, "the request was withdrawn", 0.0)


def unavailable(why: str) -> Refusal:
    """Nothing can be decided just now."""
    return Refusal(Outcome.UNAVAILABLE, f"admission {why}; try again shortly", _RETRY_S)


def never_fits(ask: Ask, capacity: Capacity) -> Refusal:
    """It is larger than the whole system."""
    pools = sorted(
        pool
        for pool, units in ask.offers[-1].demand.items()
        if units > capacity.limits.get(pool, units)
    )
    return Refusal(
        Outcome.NEVER_FITS,
        f"this needs more of {', '.join(pools)} than the system has; ask for less",
        0.0,
    )


def rate_limited(wait_s: float, rate: RateState) -> Refusal:
    """The token bucket is empty."""
    if math.isinf(wait_s):
        return Refusal(
            Outcome.RATE_LIMITED,
            "this tenant's rate is set to 0, so it may not ask at all; have it raised",
            _NEVER_S,
            rate,
        )
    return Refusal(
        Outcome.RATE_LIMITED,
        f"the rate of this tenant is used up; try again in {max(wait_s, 1):.0f} s, or spread the "
        "requests",
        max(wait_s, 1.0),
        rate,
    )


def too_many_turns(limit: int, retry_s: float, rate: RateState) -> Refusal:
    """As many run as may, and as many wait."""
    return Refusal(
        Outcome.CONCURRENCY_LIMITED,
        f"{limit} requests of this tenant run at once, which is its limit; wait until one ends",
        max(retry_s, 1.0),
        rate,
    )


def too_many_sessions(limit: int, rate: RateState) -> Refusal:
    """As many sessions are open as may be."""
    return Refusal(
        Outcome.CONCURRENCY_LIMITED,
        f"{limit} realtime sessions of this tenant are open, which is its limit; close one",
        _RETRY_S,
        rate,
    )


def quota_exceeded(unit: str, limits: Limits, wait_s: float, rate: RateState) -> Refusal:
    """The period's quota does not hold this any more."""
    return Refusal(
        Outcome.QUOTA_EXCEEDED,
        f"the quota of {limits.quota[unit]} {unit} a {limits.period} does not hold this request; "
        f"ask for less, raise it, or wait until the {limits.period} (UTC) ends",
        wait_s,
        rate,
        unit,
    )


def queue_full(retry_s: float, rate: RateState) -> Refusal:
    """No room, and no room to wait."""
    return Refusal(
        Outcome.QUEUE_FULL,
        f"all places are taken, and so is the queue; try again in about {retry_s:.0f} s",
        retry_s,
        rate,
    )


def queue_timeout(waited_s: float, retry_s: float, rate: RateState) -> Refusal:
    """No room in time."""
    return Refusal(
        Outcome.QUEUE_TIMEOUT,
        f"no place became free within {waited_s:.0f} s; try again in about {retry_s:.0f} s",
        retry_s,
        rate,
    )
