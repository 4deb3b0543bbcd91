"""/v1/embeddings."""

from __future__ import annotations

from fastapi import APIRouter

from e3rg.gateway.services import Services


def router(services: Services) -> APIRouter:
    """Make the routes."""
    return APIRouter()
