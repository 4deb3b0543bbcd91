"""/v1/models (https://platform.openai.com/docs/api-reference/models)."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from e3rg.gateway.catalog import Kind, Model
from e3rg.gateway.openapi import fails
from e3rg.gateway.services import Services

_CREATED = 1_796_083_200
"""2026-12-01: when the first of these models was offered; it never changes for a name."""


class ModelObject(BaseModel):
    """A model; ``kind`` and ``aliases`` go beyond OpenAI's fields.

    A ``listener`` answers with whole turns; the other kinds are one stage alone.
    """

    id: str
    object: Literal["model"] = "model"
    created: int = _CREATED
    owned_by: str = "e3rg"
    kind: Kind
    aliases: list[str]


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[ModelObject]


def router(services: Services) -> APIRouter:
    """Make the routes."""
    routes = APIRouter(prefix="/v1/models")

    def shown(model: Model) -> ModelObject:
        aliases = [name for name, true in services.profile.aliases.items() if true == model.id]
        return ModelObject(id=model.id, kind=model.kind, aliases=aliases)

    @routes.get("")
    async def list_models() -> ModelList:
        """Every model by its true name."""
        return ModelList(data=[shown(model) for model in await services.catalog.list()])

    # A name may have slashes in it.
    @routes.get("/{model:path}", responses=fails(404))
    async def get_model(model: str) -> ModelObject:
        """A model by its name or by an alias."""
        return shown(await services.catalog.find(model))

    return routes
