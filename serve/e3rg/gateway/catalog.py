"""The models that a client may name, and what each of them is here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from e3rg.config import Profile
from e3rg.errors import E3RGError
from e3rg.identities.store import IdentityStore

Kind = Literal["listener", "chat", "speech", "transcription", "embedding"]
"""A listener answers with whole turns; the others are one stage alone."""

LISTENER = "e3rg"
"""The default listener; ``e3rg-maya`` is the listener of that identity."""

_STAGES: tuple[tuple[str, Kind], ...] = (
    ("dialogue", "chat"),
    ("speech", "speech"),
    ("understanding", "transcription"),
    ("memory", "embedding"),
)


@dataclass(frozen=True, slots=True)
class Model:
    """A model by its true name.

    Attributes:
        id: what answers carry.
        kind: what it can be asked for.
        identity: of a listener: who; None for the default (or the conversation's) one.
    """

    id: str
    kind: Kind
    identity: str | None = None

    def listener(self, asked: str | None, param: str) -> str | None:
        """Who listens, where a request names a model and may name an identity too.

        Args:
            asked: the request's identity.
            param: its field's name.

        Returns:
            An identity's id; None where neither names one.

        Raises:
            E3RGError: ``identity_conflict`` (400).
        """
        if self.identity is not None and asked not in {None, self.identity}:
            raise E3RGError(
                "identity_conflict",
                f"model {self.id} is the listener {self.identity}, not {asked!r}; send one of them",
                param=param,
            )
        return self.identity or asked


class Catalog:
    """Looks models up by name.

    Args:
        profile: names the stages' models and the aliases.
        identities: the listeners.
    """

    def __init__(self, profile: Profile, identities: IdentityStore) -> None:
        self._aliases = profile.aliases
        self._identities = identities
        self._stages: dict[str, Model] = {}
        for stage, kind in _STAGES:
            config = getattr(profile.stages, stage)
            name = config.model or f"{stage}-{config.engine}"
            self._stages[name] = Model(name, kind)

    async def list(self) -> list[Model]:
        """Every model by its true name: the listeners, then the stages' own."""
        identities = await asyncio.to_thread(self._identities.list)
        listeners = [Model(f"{LISTENER}-{each.id}", "listener", each.id) for each in identities]
        return [Model(LISTENER, "listener"), *listeners, *self._stages.values()]

    async def find(self, name: str, *kinds: Kind) -> Model:
        """The model of a name or an alias.

        Args:
            name: as a client sent it.
            kinds: what the endpoint takes; none for any.

        Raises:
            E3RGError: ``model_not_found`` (404), or ``model_not_supported`` (400) where the
                model is of another kind; param ``model``.
        """
        true = self._aliases.get(name, name)
        model = self._stages.get(true) or await self._listener(true)
        if model is not None and (not kinds or model.kind in kinds):
            return model
        fitting = [m.id for m in await self.list() if not kinds or m.kind in kinds]
        if model is None:
            raise E3RGError(
                "model_not_found",
                f"there is no model {name[:64]!r}; use one of {', '.join(fitting[:12])}",
                param="model",
                status=404,
            )
        raise E3RGError(
            "model_not_supported",
            f"{name[:64]!r} is a {model.kind} model; here use one of {', '.join(fitting[:12])}",
            param="model",
        )

    async def _listener(self, name: str) -> Model | None:
        """A listener by its true name; of all identities only that one is read."""
        if name == LISTENER:
            return Model(LISTENER, "listener")
        prefix, _, identity = name.partition("-")
        if prefix != LISTENER:
            return None
        try:
            found = await asyncio.to_thread(self._identities.get, identity)
        except E3RGError:
            return None
        return Model(name, "listener", found.id)
