"""The WebSocket of realtime sessions: ``/v1/realtime?model=e3rg``."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from fastapi import APIRouter
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from e3rg.errors import E3RGError
from e3rg.gateway.catalog import LISTENER
from e3rg.gateway.realtime.events import error_event
from e3rg.gateway.realtime.session import RealtimeSession
from e3rg.gateway.realtime.websocket import WebSocketTransport, close_reason
from e3rg.gateway.services import Services
from e3rg.gateway.strict_json import read_json

log = logging.getLogger(__name__)

_MAX_EVENT = 8_000_000
"""Characters of one event: more than two minutes of PCM sound."""
_REFUSED = 1008
_GREETING_S = 10.0


def router(services: Services) -> APIRouter:
    """Make the routes."""
    routes = APIRouter()

    @routes.websocket("/v1/realtime")
    async def realtime(websocket: WebSocket) -> None:
        """One session (https://platform.openai.com/docs/guides/realtime-websocket)."""
        offered = websocket.scope.get("subprotocols") or []
        await websocket.accept("realtime" if "realtime" in offered else None)
        try:
            place = services.sessions.take()
            try:
                await services.admitter.session(place)
                model = await services.catalog.find(
                    websocket.query_params.get("model", LISTENER), "listener"
                )
                transport = WebSocketTransport(websocket)
                session = RealtimeSession(services, transport, model)
                await _serve(websocket, transport, session)
            finally:
                place.release()
        except E3RGError as error:
            await _refuse(websocket, error)

    return routes


async def _refuse(websocket: WebSocket, error: E3RGError) -> None:
    """Tell why there is no session: browsers see no answer but a WebSocket's."""
    try:
        async with asyncio.timeout(_GREETING_S):
            await websocket.send_text(json.dumps(error_event(error)))
            code = 1013 if error.status == 503 else _REFUSED
            await websocket.close(code, close_reason(error.message))
    except (TimeoutError, OSError, RuntimeError, WebSocketDisconnect):
        log.info("a client was gone before it could be refused")


async def _serve(
    websocket: WebSocket, transport: WebSocketTransport, session: RealtimeSession
) -> None:
    writing = asyncio.create_task(transport.run())
    living = asyncio.create_task(session.run())
    reading = asyncio.create_task(_read(websocket, transport, session))
    tasks = {writing, living, reading}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        reading.cancel()
        await session.close()
        await transport.close(1000, "the session has ended")
        await asyncio.wait({writing, living, reading})
    if not living.cancelled() and (error := living.exception()) is not None:
        raise error


async def _read(
    websocket: WebSocket, transport: WebSocketTransport, session: RealtimeSession
) -> None:
    while websocket.client_state is WebSocketState.CONNECTED:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text")
        if text is None:
            await transport.close(1003, "events are text messages of JSON; this one was binary")
            return
        if len(text) > _MAX_EVENT:
            await transport.close(1009, f"an event has at most {_MAX_EVENT} characters")
            return
        await session.receive(_parsed(text))


def _parsed(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return None
