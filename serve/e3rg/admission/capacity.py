"""Room in the pools: a request takes all that it needs, or nothing."""

from __future__ import annotations

from collections.abc import Mapping

_EPSILON = 1e-9


class Capacity:
    """Units of each pool, and how many of them are in use.

    Args:
        limits: pool → units; a pool that is not named has no limit.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        self._limits = dict(limits)
        self._used = dict.fromkeys(limits, 0.0)

    @property
    def used(self) -> Mapping[str, float]:
        """Units in use."""
        return self._used

    @property
    def limits(self) -> Mapping[str, float]:
        """Units that there are."""
        return self._limits

    def can_ever_fit(self, demand: Mapping[str, float]) -> bool:
        """Whether it fits where nothing else runs."""
        return all(units <= self._limits.get(pool, units) for pool, units in demand.items())

    def lacking(self, demand: Mapping[str, float]) -> frozenset[str]:
        """The pools in which it does not fit now."""
        return frozenset(
            pool
            for pool, units in demand.items()
            if pool in self._limits
            and units > 0
            and self._used[pool] + units > self._limits[pool] + _EPSILON
        )

    def take(self, demand: Mapping[str, float]) -> None:
        """Use units; also beyond the limit, for what runs already."""
        for pool, units in demand.items():
            if pool in self._limits:
                self._used[pool] += units

    def give_back(self, demand: Mapping[str, float]) -> None:
        """Free units."""
        for pool, units in demand.items():
            if pool in self._limits:
                left = self._used[pool] - units
                self._used[pool] = left if left > _EPSILON else 0.0
