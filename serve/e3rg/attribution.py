"""For whom work is done: set at the gateway, it travels with every hop as the deadline does.

Kept in a context variable, so that no stage has to pass it; tasks inherit it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from e3rg import deadline


@dataclass(frozen=True, slots=True)
class Attribution:
    """For whom work is done.

    Attributes:
        tenant: who pays; empty for the system's own work (health checks), which nobody pays.
        user: the tenant's user, or None.
        work: id of the turn or call that is metered; made by this server, never a client's word.
        request: the request's id, for logs.
        traceparent: W3C trace context (https://www.w3.org/TR/trace-context/), or None.
    """

    tenant: str = ""
    user: str | None = None
    work: str = ""
    request: str = ""
    traceparent: str | None = None


_current: ContextVar[Attribution] = ContextVar("e3rg_attribution", default=Attribution())  # noqa: B039


def current() -> Attribution:
    """For whom this task works."""
    return _current.get()


def adopt(attribution: Attribution) -> None:
    """Work for somebody from here on, in this task and those that it starts."""
    _current.set(attribution)


@dataclass(frozen=True, slots=True)
class Hop:
    """What goes with a call to a stage.

    Attributes:
        due: the deadline (Unix time), or None.
        attribution: for whom.
    """

    due: float | None
    attribution: Attribution


def hop() -> Hop:
    """What goes with a call that this task makes."""
    return Hop(deadline.current(), current())
