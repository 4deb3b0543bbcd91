"""Routes of WebRTC sessions.

https://platform.openai.com/docs/guides/realtime-webrtc

A call lives in the replica that answered its offer. Media and events flow over UDP straight to that
replica, so nothing in front needs to be sticky; only hanging up over HTTP has to reach it, and any
other replica answers 404 (closing the peer connection always works).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from pydantic import BaseModel, Field

from e3rg.errors import E3RGError
from e3rg.gateway.bodies import Strict, parse
from e3rg.gateway.catalog import LISTENER
from e3rg.gateway.openapi import fails, gives
from e3rg.gateway.realtime.config import Settings, updated
from e3rg.gateway.services import Services
from e3rg.gateway.strict_json import read_json
from e3rg.gateway.uploads import read_body
from e3rg.gateway.webrtc.calls import Calls
from e3rg.gateway.webrtc.offer import MAX_BYTES, Offer, read_offer

_SDP = "application/sdp"


class CallForm(Strict):
    """The multipart body of a call."""

    sdp: str = Field(max_length=MAX_BYTES, description="the SDP offer, with its candidates")
    session: str | None = Field(
        default=None, max_length=MAX_BYTES, description="JSON: the session, as in session.update"
    )


class IceServer(BaseModel):
    """One entry of ``new RTCPeerConnection({iceServers})``."""

    urls: list[str]
    username: str | None = None
    credential: str | None = None


class IceServers(BaseModel):
    """What the browser reaches the server with, when there is a NAT or a firewall between."""

    ice_servers: list[IceServer]


def router(services: Services) -> APIRouter:
    """Make the routes; calls that still run end with the application."""
    calls = Calls(services)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        yield
        await calls.close()

    routes = APIRouter(lifespan=lifespan)

    @routes.post(
        "/v1/realtime/calls",
        status_code=201,
        response_class=Response,
        openapi_extra=_BODY,
        responses={
            **gives(binary=[_SDP], status=201, description="The SDP answer; Location is the call."),
            **fails(404),
        },
    )
    async def create_call(request: Request, model: str | None = None) -> Response:
        """Begin a session over WebRTC: an SDP offer for an answer, both with their candidates."""
        offer, session = await _read(request)
        if session is not None:
            model = updated(Settings(), session).model or model
        found = await services.catalog.find(model or LISTENER, "listener")
        call, answer = await calls.begin(found, offer, session)
        headers = {"Location": f"/v1/realtime/calls/{call}"}
        return Response(answer, status_code=201, media_type=_SDP, headers=headers)

    @routes.post(
        "/v1/realtime/calls/{call_id}/hangup",
        response_class=Response,
        responses={**gives(description="The call has ended."), **fails(404)},
    )
    async def hang_up(call_id: str) -> Response:
        """End a call. Only the replica that answered it knows it; others answer 404."""
        await calls.hang_up(call_id)
        return Response(status_code=200)

    @routes.get("/v1/realtime/ice", response_model_exclude_none=True)
    async def ice() -> IceServers:
        """STUN and TURN servers for the browser's RTCPeerConnection."""
        servers = [
            IceServer(urls=list(s.urls), username=s.username, credential=s.credential)
            for s in services.profile.gateway.ice_servers
        ]
        return IceServers(ice_servers=servers)

    return routes


_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            _SDP: {"schema": {"type": "string", "maxLength": MAX_BYTES}},
            "multipart/form-data": {"schema": CallForm.model_json_schema()},
        },
    }
}


async def _read(request: Request) -> tuple[Offer, dict[str, Any] | None]:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == _SDP:
        return read_offer(_text(await _bounded(request), "sdp")), None
    if kind != "multipart/form-data":
        raise E3RGError(
            "unsupported_media_type",
            f"Content-Type {kind[:64]!r} is not taken; send {_SDP} or multipart/form-data",
            status=415,
        )
    async with AsyncExitStack() as stack:
        fields, files = await read_body(request, stack, 2 * MAX_BYTES)
        for name, file in files.items():  # clients that give their parts a file name
            fields[name] = _text(await file.read(), name)
    form = parse(CallForm, fields)
    offer = read_offer(form.sdp)
    if form.session is None:
        return offer, None
    try:
        session = read_json(form.session)
    except ValueError as error:
        raise E3RGError("invalid_json", "session is not valid JSON", param="session") from error
    if not isinstance(session, dict):
        raise E3RGError("invalid_type", "session: an object is wanted", param="session")
    return offer, session


async def _bounded(request: Request) -> bytes:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_BYTES:
            raise E3RGError(
                "sdp_too_large", f"sdp is longer than {MAX_BYTES} bytes", param="sdp", status=413
            )
    return bytes(data)


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise E3RGError("invalid_type", f"{name} is not UTF-8", param=name) from error
