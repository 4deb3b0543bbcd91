"""Who this task answers; set once for each request, before anything of it is read."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace

from e3rg import attribution
from e3rg.tenancy import Principal

_NOBODY = Principal(tenant="", scopes=frozenset())
"""What runs outside a request sees nobody's data."""

_current: ContextVar[Principal] = ContextVar("e3rg_principal", default=_NOBODY)


def current() -> Principal:
    """Who this task answers; tasks inherit it."""
    return _current.get()


def adopt(principal: Principal) -> None:
    """Answer somebody from here on; what is spent is theirs."""
    _current.set(principal)
    attribution.adopt(replace(attribution.current(), tenant=principal.tenant))
