"""Routes of the listeners: /v1/identities."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from e3rg import deadline
from e3rg.errors import E3RGError
from e3rg.gateway import shapes
from e3rg.gateway.openapi import fails, gives, takes
from e3rg.gateway.services import Services
from e3rg.gateway.uploads import read_body
from e3rg.gateway.wire import identity_json
from e3rg.identities.record import AGES, GENDERS, MAX_NAME, MAX_PROFILE, check_voice
from e3rg.identities.types import MAX_PORTRAIT_BYTES

_INSPECT_S = 30.0
_LINKS = {
    operation: {"identity_id": "$response.body#/id"}
    for operation in ("get_identity", "get_portrait", "remove_identity")
}


class IdentityForm(BaseModel):
    """A listener to add."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[str, Field(pattern="^[a-z0-9-]{1,64}$")]
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    gender: Annotated[str, Field(json_schema_extra={"enum": list(GENDERS)})]
    age: Annotated[str, Field(json_schema_extra={"enum": list(AGES)})]
    voice: Annotated[str, Field(description="a voice id of the speech engine")]
    profile: Annotated[
        str, Field(min_length=1, max_length=MAX_PROFILE, description="the listener's character")
    ]


_FIELDS = tuple(IdentityForm.model_fields)


def router(services: Services) -> APIRouter:
    """Make the routes."""
    routes = APIRouter(prefix="/v1/identities", tags=["identities"])
    store = services.identities

    @routes.get("", response_class=Response, responses=gives(shapes.Identities))
    async def list_identities() -> Response:
        """All listeners; ``default`` names the one that answers if none is asked for."""
        listed = await asyncio.to_thread(store.list)
        answer: shapes.Identities = {
            "object": "list",
            "default": (await asyncio.to_thread(store.default)).id,
            "data": [identity_json(identity) for identity in listed],
        }
        return JSONResponse(answer)

    @routes.get("/{identity_id}", response_class=Response, responses=gives(shapes.Identity))
    async def get_identity(identity_id: str) -> Response:
        """One listener."""
        return JSONResponse(identity_json(await asyncio.to_thread(store.get, identity_id)))

    @routes.get(
        "/{identity_id}/portrait",
        response_class=Response,
        responses=gives(binary=("image/png", "image/jpeg", "image/webp")),
    )
    async def get_portrait(identity_id: str) -> Response:
        """The listener's portrait file."""
        identity = await asyncio.to_thread(store.get, identity_id)
        data = await asyncio.to_thread(store.portrait, identity.portrait)
        return Response(data, media_type=_image_type(data))

    @routes.post(
        "",
        status_code=201,
        response_class=Response,
        openapi_extra=takes(form=IdentityForm, files={"portrait": True}),
        responses={
            **gives(shapes.Identity, status=201, description="Added.", links=_LINKS),
            **fails(409),
        },
    )
    async def add_identity(request: Request) -> Response:
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
        return JSONResponse(identity_json(added), status_code=201)

    @routes.delete("/{identity_id}", status_code=204, responses=fails(507))
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
