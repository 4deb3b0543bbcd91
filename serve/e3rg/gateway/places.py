"""Bounded numbers of things at once, refused beyond with the standard answer."""

from __future__ import annotations

from collections.abc import Callable

from e3rg.errors import E3RGError
from e3rg.telemetry import metrics


class Place:
    """The right to do one thing; given back once, however often it is released."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._releases = [release]
        self._used = False
        self._released = False

    def attach(self, release: Callable[[], None]) -> None:
        """Give back something more with it; at once if it is given back already."""
        if self._released:
            release()
        else:
            self._releases.append(release)

    def use(self) -> None:
        """Something runs on it now, and will release it."""
        self._used = True

    def release_unused(self) -> None:
        """Give it back if nothing began: a generator that never started cleans up nothing."""
        if not self._used:
            self.release()

    def release(self) -> None:
        """Give it back."""
        self._released = True
        while self._releases:
            self._releases.pop()()

    def __enter__(self) -> Place:
        self.use()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Places:
    """So many of one kind at once.

    Args:
        limit: how many.
        changed: told the number that are taken.
    """

    def __init__(self, limit: int, changed: Callable[[int], object] = lambda _: None) -> None:
        self.limit = limit
        self._taken = 0
        self._changed = changed

    @property
    def taken(self) -> int:
        """How many are in use."""
        return self._taken

    def take(self) -> Place:
        """Take one.

        Raises:
            E3RGError: ``overloaded`` (503).
        """
        if self._taken >= self.limit:
            metrics.REJECTED.labels("overloaded").inc()
            raise E3RGError(
                "overloaded",
                f"all {self.limit} places are taken; try again shortly",
                status=503,
                retry_after=5,
            )
        self._taken += 1
        self._changed(self._taken)
        return Place(self._leave)

    def _leave(self) -> None:
        self._taken -= 1
        self._changed(self._taken)
