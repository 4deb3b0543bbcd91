"""How a profile's engine name becomes a loaded engine, in a replica or in process."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from e3rg.config import ConfigError
from e3rg.identities.types import PortraitRef
from e3rg.models.store import ModelStore


class PortraitSource(Protocol):
    """Gives the bytes of a portrait that was stored before."""

    def portrait(self, ref: PortraitRef) -> bytes:
        """Read a portrait file.

        Raises:
            E3RGError: ``unknown_portrait``.
        """
        ...


@dataclass(frozen=True, slots=True)
class EngineContext:
    """What an engine may use of the machine it is loaded on.

    Attributes:
        models: model files.
        data: folder for what the engine keeps (its own sub-folder).
        portraits: portraits by content.
    """

    models: ModelStore
    data: Path
    portraits: PortraitSource


class Engine(Protocol):
    """What every engine has beside its stage's own methods."""

    @classmethod
    def load(cls, context: EngineContext, **options: Any) -> Self:
        """Load weights and warm up; may take long; raises ConfigError for a wrong option."""
        ...

    def close(self) -> None:
        """Release threads, files and memory; safe to call twice."""
        ...


def load_engine(
    registry: Mapping[str, str], name: str, context: EngineContext, options: Mapping[str, Any]
) -> Any:
    """Load an engine by its name in a stage's registry (name → ``module:Class``).

    The import happens here, so that a process imports only the libraries of its own engine.

    Raises:
        ConfigError: for an unknown name or option.
    """
    if name not in registry:
        raise ConfigError(f"unknown engine {name!r}: one of {', '.join(sorted(registry))}")
    module, _, attribute = registry[name].partition(":")
    cls: type[Engine] = getattr(importlib.import_module(module), attribute)
    try:
        return cls.load(context, **options)
    except TypeError as error:
        if "unexpected keyword argument" in str(error):
            raise ConfigError(f"engine {name!r}: {error}") from error
        raise
