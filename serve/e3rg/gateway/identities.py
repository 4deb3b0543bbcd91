"""Routes of the listeners: /v1/identities."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from e3rg import deadline
from e3rg.errors import E3RGError
from e3rg.gateway.services import Services
from e3rg.gateway.uploads import read_body
from e3rg.gateway.wire import identity_json
from e3rg.identities.record import check_voice
from e3rg.identities.types import MAX_PORTRAIT_BYTES

_INSPECT_S = 30.0
_FIELDS = ("id", "name", "gender", "age", "voice", "profile")


def router(services: Services) -> APIRouter:
    """Make the routes."""
    routes = APIRouter(prefix="/v1/identities")
    store = services.identities

    @routes.get("")
    async def list_identities() -> dict[str, Any]:
        """All listeners; ``default`` names the one that answers if none is asked for."""
        listed = await asyncio.to_thread(store.list)
        return {
            "object": "list",
            "default": (await asyncio.to_thread(store.default)).id,
            "data": [identity_json(identity) for identity in listed],
        }

    @routes.get("/{identity_id}")
    async def get_identity(identity_id: str) -> dict[str, Any]:
        """One listener."""
        return identity_json(await asyncio.to_thread(store.get, identity_id))

    @routes.get("/{identity_id}/portrait", response_class=Response)
    async def get_portrait(identity_id: str) -> Response:
        """The listener's portrait file."""
        identity = await asyncio.to_thread(store.get, identity_id)
        data = await asyncio.to_thread(store.portrait, identity.portrait)
        return Response(data, media_type=_image_type(data))

    @routes.post("", status_code=201)
    async def add_identity(request: Request) -> dict[str, Any]:
        """Add a listener: multipart with the file ``portrait`` and the fields of an identity."""
        async with AsyncExitStack() as stack:
            fields, files = await read_body(request, stack, MAX_PORTRAIT_BYTES)
            for name in [*fields, *files]:
                if name not in (*_FIELDS, "portrait"):
                    raise E3RGError(
                        "unknown_field", f"there is no field {name!r} in an identity", param=name
                    )
            if "portrait" not in files:
                raise E3RGError(
                    "portrait_missing", "send the portrait as a multipart file", param="portrait"
                )
            for name in _FIELDS:
                if not isinstance(fields.get(name), str):
                    raise E3RGError(
                        "identity_invalid", f"{name} must be a text", param=name, status=422
                    )
            portrait = await files["portrait"].read()
        async with deadline.bounded(time.time() + _INSPECT_S):
            known = await services.stages.speech.voices()
            check_voice(fields["voice"], [voice.id for voice in known])
            report = await services.stages.avatar.inspect(portrait)
        added = await asyncio.to_thread(
            store.add,
            fields["id"],
            name=fields["name"],
            gender=fields["gender"],
            age=fields["age"],
            voice=fields["voice"],
            profile=fields["profile"],
            portrait=portrait,
            report=report,
        )
        return identity_json(added)

    @routes.delete("/{identity_id}", status_code=204)
    async def remove_identity(identity_id: str) -> None:
        """Remove a listener that was added."""
        await asyncio.to_thread(store.remove, identity_id)

    return routes


def _image_type(data: bytes) -> str:
    if data.startswith(b"\x89PNG"):
        return "image/png"
    if data[8:12] == b"WEBP":
        return "image/webp"
    return "image/jpeg"
