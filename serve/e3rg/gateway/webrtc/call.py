"""One call: a realtime session with a WebRTC peer, from the answer to the last release."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from e3rg.emotions.types import Delivery, Expression
from e3rg.errors import E3RGError
from e3rg.gateway.catalog import Model
from e3rg.gateway.encoding import encoded
from e3rg.gateway.ids import new_id
from e3rg.gateway.places import Place
from e3rg.gateway.realtime.events import error_event
from e3rg.gateway.realtime.session import RealtimeSession
from e3rg.gateway.services import Services
from e3rg.gateway.strict_json import read_json
from e3rg.gateway.webrtc.incoming import Camera, Microphone
from e3rg.gateway.webrtc.offer import Offer
from e3rg.gateway.webrtc.peer import Peer
from e3rg.gateway.webrtc.picture import PictureTrack, Rest
from e3rg.gateway.webrtc.playout import Playout
from e3rg.gateway.webrtc.sound import SoundTrack
from e3rg.gateway.webrtc.transport import WebRtcTransport
from e3rg.turn.calls import call

log = logging.getLogger(__name__)

_STILL_S = 30.0
CONNECT_S = 30.0
"""A peer that is not connected by then is dropped."""


class Call:
    """One call.

    Args:
        services: the gateway's parts.
        model: the listener.
        place: held as long as the call lives.
        offer: what the peer can do.
        session: settings that came with the offer, already checked.
    """

    def __init__(
        self,
        services: Services,
        model: Model,
        place: Place,
        offer: Offer,
        session: dict[str, Any] | None,
    ) -> None:
        self.id = new_id("rtc")
        self._services = services
        self._model = model
        self._place = place
        self._offer = offer
        self._session = session
        self._picture: PictureTrack | None = None
        self._shown: str | None = None  # whose still the picture rests as
        self._peer: Peer | None = None
        self._ended = False
        self._showing: asyncio.Task[None] | None = None

    async def answer(self) -> str:
        """Negotiate.

        Returns:
            The SDP answer.

        Raises:
            E3RGError: the offer cannot be taken, or the listener has no picture; all is released.
        """
        try:
            if self._offer.picture:
                wanted = (self._session or {}).get("e3rg", {}).get("identity")
                self._shown = wanted or self._model.identity
                self._picture = PictureTrack(await self._rest(self._shown))
            sound = SoundTrack()
            self._playout = Playout(sound, self._picture)
            self._peer = Peer(self._services.profile.gateway, sound, self._picture)
            return await self._peer.answer(self._offer)
        except BaseException:
            await self._release()
            raise

    async def run(self) -> None:
        """Live until either side ends the call."""
        assert self._peer is not None
        peer = self._peer
        pump = asyncio.create_task(self._pump(peer))
        try:
            channel = await _either(peer, asyncio.shield(peer.channel), CONNECT_S)
            if channel is not None:
                await self._talk(peer, channel)
        finally:
            log.info("call %s ended: %s", self.id, peer.reason)
            pump.cancel()
            await self._release()
            await asyncio.wait({pump})

    def hang_up(self, reason: str) -> None:
        """End the call; ``run`` returns when all is released."""
        assert self._peer is not None
        self._peer.end(reason)

    async def _talk(self, peer: Peer, channel: Any) -> None:
        transport = WebRtcTransport(channel, self._playout, peer.end, self._listener)
        session = RealtimeSession(
            self._services, transport, self._model, video=self._picture is not None
        )

        async def look(jpeg: bytes) -> None:
            image = f"data:image/jpeg;base64,{encoded(jpeg)}"
            await session.receive({"type": "e3rg.input_image.append", "image": image})

        work: list[Coroutine[Any, Any, None]] = [
            self._converse(session, transport),
            _receive(peer, session, transport),
            peer.guard(),
        ]
        if peer.microphone is not None:
            work.append(Microphone(peer.microphone, session.hear).run())
        if peer.camera is not None:
            work.append(Camera(peer.camera, look).run())
        tasks = {asyncio.create_task(_guarded(part, peer)) for part in work}
        try:
            await peer.ended.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await session.close()

    async def _converse(self, session: RealtimeSession, transport: WebRtcTransport) -> None:
        try:
            await session.run(self._session)
        except E3RGError as error:
            await transport.send(error_event(error))
        await transport.close(1000, "the session ended")

    async def _pump(self, peer: Peer) -> None:
        await peer.connected.wait()
        await self._playout.run()

    def _listener(self, identity: str | None) -> None:
        """The session says who listens: the picture rests as this listener."""
        if self._picture is None or identity is None or identity == self._shown:
            return
        self._shown = identity
        if self._showing is not None:
            self._showing.cancel()
        self._showing = asyncio.create_task(self._show(self._picture, identity))

    async def _show(self, picture: PictureTrack, identity: str) -> None:
        try:
            picture.rest_as = await self._rest(identity)
        except E3RGError as error:  # the old still is shown on
            log.warning("no still of %s: %s", identity, error.message)

    async def _rest(self, name: str | None) -> Rest:
        identity = await self._services.listener(name)
        avatar = self._services.stages.avatar
        neutral = Delivery(Expression.NEUTRAL, 0.0)
        still = await call("avatar", avatar.still(identity.portrait, neutral), _STILL_S)
        return await asyncio.to_thread(Rest.of, still)

    async def _release(self) -> None:
        if self._ended:
            return
        self._ended = True
        try:
            if self._showing is not None:
                self._showing.cancel()
                await asyncio.wait({self._showing})
            if self._peer is not None:
                await self._peer.close()
        finally:
            self._place.release()


async def _receive(peer: Peer, session: RealtimeSession, transport: WebRtcTransport) -> None:
    while True:
        message = await peer.messages.get()
        try:
            event = read_json(message if isinstance(message, str) else message.decode())
        except ValueError:
            error = E3RGError("invalid_json", "a message is not valid JSON; send one event as text")
            await transport.send(error_event(error))
            continue
        await session.receive(event)


async def _guarded(work: Coroutine[Any, Any, None], peer: Peer) -> None:
    """A part of a call that fails ends the call, and never in silence."""
    try:
        await work
    except Exception as error:
        log.error("a call failed", exc_info=error)
        peer.end("it failed inside the server")


async def _either(peer: Peer, wanted: asyncio.Future[Any], limit_s: float) -> Any | None:
    """What is wanted, or None if the connection ends, or takes too long."""
    ended = asyncio.create_task(peer.ended.wait())
    try:
        await asyncio.wait({ended, wanted}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended.cancel()
    if wanted.done() and not wanted.cancelled() and not peer.ended.is_set():
        return wanted.result()
    wanted.cancel()
    peer.end("the peer did not connect in time")
    return None
