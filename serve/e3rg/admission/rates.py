"""Rates: token buckets, refilled evenly (RFC 6585 names the answer beyond them, 429)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from e3rg.admission.contracts import Limits, RateState

_MINUTE_S = 60.0


@dataclass(slots=True)
class TokenBucket:
    """So many in a minute.

    Attributes:
        size: the most that can be taken at once, and what a minute refills.
        level: what is there, at ``updated``.
        updated: seconds of a monotonic clock.
    """

    size: float
    level: float
    updated: float

    def refill(self, now: float) -> None:
        """Let time pass."""
        gained = (now - self.updated) * self.size / _MINUTE_S
        self.level = min(self.level + max(gained, 0.0), self.size)
        self.updated = max(now, self.updated)

    def wait_s(self, amount: float) -> float:
        """Seconds until so much is there; 0 if it is, infinite if it never will be."""
        if not self.size:
            return math.inf if amount else 0.0
        lacking = min(amount, self.size) - self.level
        return max(lacking, 0.0) * _MINUTE_S / self.size

    @property
    def full_in_s(self) -> float:
        """Seconds until it is full again."""
        if not self.size:
            return 0.0
        return (self.size - self.level) * _MINUTE_S / self.size


class Rates:
    """A tenant's requests and tokens in a minute."""

    def __init__(self) -> None:
        self._requests: TokenBucket | None = None
        self._tokens: TokenBucket | None = None

    def apply(self, limits: Limits, now: float) -> None:
        """Take the tenant's limits as they are now, and let time pass."""
        self._requests = _bucket(self._requests, limits.requests_per_minute, now)
        self._tokens = _bucket(self._tokens, limits.tokens_per_minute, now)

    def take(self, tokens: int) -> float:
        """Take one request and its tokens, or nothing.

        Returns:
            0 if they were taken, else the seconds until they can be.
        """
        wait = 0.0
        if self._requests is not None:
            wait = self._requests.wait_s(1)
        if self._tokens is not None:
            wait = max(wait, self._tokens.wait_s(tokens))
        if wait <= 0:
            self._add(-1, -tokens)
        return wait

    def refund(self, tokens: int) -> None:
        """Give back what a refused request had taken."""
        self._add(1, tokens)

    def full(self, now: float) -> bool:
        """Whether nothing would be lost if these were forgotten."""
        buckets = [each for each in (self._requests, self._tokens) if each is not None]
        for bucket in buckets:
            bucket.refill(now)
        return all(bucket.level >= bucket.size for bucket in buckets)

    def state(self) -> RateState:
        """For the headers."""
        requests, tokens = self._requests, self._tokens
        return RateState(
            None if requests is None else int(requests.size),
            None if requests is None else int(requests.level),
            0.0 if requests is None else requests.full_in_s,
            None if tokens is None else int(tokens.size),
            None if tokens is None else int(tokens.level),
            0.0 if tokens is None else tokens.full_in_s,
        )

    def _add(self, requests: int, tokens: int) -> None:
        for bucket, amount in ((self._requests, requests), (self._tokens, tokens)):
            if bucket is not None:
                # A request of more tokens than a minute has takes the whole minute.
                amount = max(min(amount, int(bucket.size)), -int(bucket.size))
                bucket.level = min(bucket.level + amount, bucket.size)


def _bucket(bucket: TokenBucket | None, size: int | None, now: float) -> TokenBucket | None:
    if size is None:
        return None
    if bucket is None:
        return TokenBucket(size, size, now)
    bucket.refill(now)
    if bucket.size != size:
        bucket.level = bucket.level * size / bucket.size if bucket.size else size
        bucket.size = size
    return bucket
