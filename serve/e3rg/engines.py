"""How a profile's engine name becomes a loaded engine, in a replica or in process."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Protocol, Self, get_args, get_type_hints

from e3rg.config import ConfigError
from e3rg.identities.types import PortraitRef
from e3rg.models.store import ModelStore

_PLAIN_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    NoneType: "null",
}
_PLAIN = frozenset(_PLAIN_NAMES)


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
        ConfigError: for an unknown name, or an option that is unknown, missing or of a wrong type.
    """
    if name not in registry:
        raise ConfigError(f"unknown engine {name!r}: one of {', '.join(sorted(registry))}")
    module, _, attribute = registry[name].partition(":")
    cls: type[Engine] = getattr(importlib.import_module(module), attribute)
    _check(name, cls, context, options)
    return cls.load(context, **options)


def _check(
    name: str, cls: type[Engine], context: EngineContext, options: Mapping[str, Any]
) -> None:
    """Hold a profile's options against the engine's signature, before anything is loaded."""
    signature = inspect.signature(cls.load)
    try:
        signature.bind(context, **options)
    except TypeError as error:
        _, *known = signature.parameters
        raise ConfigError(
            f"engine {name!r}: {error}; its options are {', '.join(known) or 'none'}"
        ) from error
    hints = get_type_hints(cls.load)
    for option, value in options.items():
        hint = hints.get(option)
        types = get_args(hint) or (hint,)  # members of a union, or the type itself
        if not _PLAIN.issuperset(types):
            continue  # the engine checks what is more than a number or a word
        if type(value) not in types and not (type(value) is int and float in types):
            wanted = " or ".join(_PLAIN_NAMES[kind] for kind in types)
            raise ConfigError(f"engine {name!r}: {option} must be {wanted}, not {value!r}")
