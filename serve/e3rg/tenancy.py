"""Who asks: tenants, what a key may do, and whose data is whose."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from e3rg.admission.contracts import Limits

LOCAL = "local"
"""The one tenant of an open system on a laptop, and of data from before there were tenants."""

TENANT_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,46}[a-z0-9])?")
"""A tenant's id: safe in paths, labels and logs."""


class Scope(StrEnum):
    """What a key may be used for; ``admin`` is for tenants and keys, and implies no other."""

    INFERENCE = "inference"
    MEMORY = "memory"
    IDENTITIES = "identities"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request comes from, as its key says; nothing of it is the client's word.

    Attributes:
        tenant: whose data is seen, and who pays.
        key: id of the key (not the key); empty on an open system.
        scopes: what it may be used for.
        user: the only user that the key may speak for; None for any of the tenant's.
        limits: of the tenant, as they were when the key was looked up (seconds ago at most).
    """

    tenant: str = LOCAL
    key: str = ""
    scopes: frozenset[Scope] = frozenset(Scope)
    user: str | None = None
    limits: Limits = field(default_factory=Limits)
