"""The context that engines are loaded with on this machine."""

from __future__ import annotations

from e3rg.config import data_dir, model_dir
from e3rg.engines import EngineContext
from e3rg.identities.store import IdentityStore
from e3rg.models.store import ModelStore


def engine_context() -> EngineContext:
    """The context of an engine on this machine."""
    data = data_dir()
    data.mkdir(parents=True, exist_ok=True)
    return EngineContext(ModelStore(model_dir()), data, IdentityStore(data / "identities"))
