"""The ingress as a FastAPI application; it knows engines only through their Protocols."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from e3rg import __version__
from e3rg.gateway import docs, faults, health, identities, site
from e3rg.gateway.access.middleware import Access
from e3rg.gateway.methods import Methods
from e3rg.gateway.openapi_document import document
from e3rg.gateway.origin import SameOrigin
from e3rg.gateway.protocols import turns
from e3rg.gateway.protocols.openai import (
    chat,
    embeddings,
    models,
    speech,
    transcriptions,
    videos,
)
from e3rg.gateway.rate_headers import RateHeaders
from e3rg.gateway.realtime import routes as realtime
from e3rg.gateway.services import Services
from e3rg.gateway.time_limit import TimeLimit
from e3rg.gateway.uploads import MAX_JSON_BYTES, BodyLimit
from e3rg.gateway.webrtc import routes as webrtc


class Gateway(FastAPI):
    """FastAPI with a document that says what the routes truly do."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document; made once."""
        if self.openapi_schema is None:
            self.openapi_schema = document(super().openapi())
        return self.openapi_schema


def build_app(services: Services, *, proxied: bool = False) -> FastAPI:
    """Make the application.

    Args:
        services: the gateway's parts; closed with the application.
        proxied: it runs behind Ray Serve's proxy, which names request ids in answers.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        yield
        await services.close()

    app = Gateway(
        title="E3RG Serve",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # Whether a path ends in a slash is part of it: a redirect would name a host and a scheme
        # that the server behind a proxy does not know.
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    faults.install(app)
    limit = services.profile.turn.max_upload_bytes + MAX_JSON_BYTES
    app.add_middleware(BodyLimit, limit=limit, timeout_s=services.profile.gateway.body_timeout_s)
    app.add_middleware(TimeLimit, limits=services.profile.turn)
    app.add_middleware(Access)
    app.add_middleware(RateHeaders)
    app.add_middleware(Methods)
    app.add_middleware(SameOrigin)
    app.add_middleware(faults.RequestId, answered=not proxied)
    for part in (turns, identities, health):
        app.include_router(part.router(services))
    for part in (chat, models, embeddings, speech, transcriptions, videos):
        app.include_router(part.router(services), tags=["openai"])
    for part in (realtime, webrtc):
        app.include_router(part.router(services), tags=["realtime"])
    app.include_router(docs.router())
    app.include_router(site.router())
    app.mount("/page", site.PageFiles(), name="page")
    return app
