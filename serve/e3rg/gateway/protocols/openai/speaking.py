"""Many sentences spoken one after the other, one ahead of what is taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from e3rg.deadline import bounded
from e3rg.emotions.types import Delivery
from e3rg.errors import E3RGError
from e3rg.gateway.places import Place
from e3rg.gateway.services import Services
from e3rg.gateway.time_limit import due
from e3rg.media.sound_encoder import RAW_RATE
from e3rg.media.types import Pcm
from e3rg.stages.speech.engine import SpeechRequest
from e3rg.turn.calls import call


async def speak(
    services: Services,
    sentences: Sequence[str],
    voice: str,
    delivery: Delivery,
    speed: float,
    place: Place,
) -> AsyncGenerator[Pcm, None]:
    """Speak sentences; where there are none, a tenth of a second of silence.

    Args:
        services: the speech stage, and its time limit, which holds for each sentence.
        sentences: in order.
        voice: of the engine.
        delivery: how to say it.
        speed: as in SpeechRequest.
        place: given back when the work has stopped.

    Raises:
        E3RGError: the speech stage's own; ``deadline_exceeded`` (504).
    """
    place.use()
    ahead: asyncio.Task[Pcm] | None = None
    try:
        if not sentences:
            yield Pcm(bytes(RAW_RATE // 5), RAW_RATE)
        requests = [SpeechRequest(text, voice, delivery, speed) for text in sentences]
        for index, request in enumerate(requests):
            # What is ahead has begun while the one before was sent.
            ahead = ahead or asyncio.create_task(_one(services, request, patient=False))
            pcm = await ahead
            ahead = None
            if index + 1 < len(requests):
                ahead = asyncio.create_task(_one(services, requests[index + 1], patient=True))
            yield pcm
    finally:
        try:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)
        finally:
            place.release()


async def _one(services: Services, request: SpeechRequest, *, patient: bool) -> Pcm:
    """One sentence. Whoever is patient waits where the engine has no room: the answer has begun."""
    limit = services.profile.turn.timeout_s
    async with bounded(due(services.profile.turn)):
        while True:
            try:
                work = services.stages.speech.synthesize(request)
                return (await call("speech", work, limit)).audio
            except E3RGError as error:
                if not patient or error.status != 503 or error.retry_after is None:
                    raise
                await asyncio.sleep(error.retry_after)
