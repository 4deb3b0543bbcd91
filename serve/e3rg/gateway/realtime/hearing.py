"""The words of a speaker's sound, found by a turn or by the recogniser alone."""

from __future__ import annotations

import time

from e3rg.deadline import bounded
from e3rg.errors import E3RGError
from e3rg.gateway.estimates import hearing_estimate
from e3rg.gateway.realtime.events import Event, event
from e3rg.gateway.realtime.items import Item
from e3rg.gateway.realtime.transport import Transport
from e3rg.gateway.services import Services
from e3rg.media.types import SPEECH_INPUT_RATE, Pcm
from e3rg.turn.calls import call

_HEAR_S = 60.0


def understood(item: Item, text: str) -> Event:
    """The item's words are known.

    Returns:
        ``conversation.item.input_audio_transcription.completed``.
    """
    index, seconds = _settle(item, text)
    return event(
        "conversation.item.input_audio_transcription.completed",
        item_id=item.id,
        content_index=index,
        transcript=text,
        usage={"type": "duration", "seconds": round(seconds, 3)},
    )


def not_understood(item: Item, error: E3RGError) -> Event:
    """No words can be had of the item's sound.

    Returns:
        ``conversation.item.input_audio_transcription.failed``.
    """
    index, _ = _settle(item, "")
    fault = error.to_json()["error"]
    return event(
        "conversation.item.input_audio_transcription.failed",
        item_id=item.id,
        content_index=index,
        error=fault,
    )


async def transcribe(services: Services, transport: Transport, item: Item, *, tell: bool) -> None:
    """Find an item's words outside of a turn, and tell them if asked to.

    A failure is told as an event and leaves the item without words.
    """
    data = b"".join(voice.data for voice in item.voices)
    try:
        limit = services.profile.turn.timeout_s
        sound = Pcm(data, SPEECH_INPUT_RATE)
        with services.calls.take() as place:
            async with bounded(time.time() + limit):
                estimate = hearing_estimate(sound.seconds)
                await services.admitter.call(place, "understanding", estimate)
                heard = await call(
                    "understanding", services.stages.understanding.transcribe(sound), _HEAR_S
                )
    except E3RGError as error:
        await transport.send(not_understood(item, error))
        return
    told = understood(item, heard.text)
    if tell:
        await transport.send(told)


def _settle(item: Item, text: str) -> tuple[int, float]:
    parts = item.unheard
    for part in parts:
        part.text, part.understood = "", True
    if not parts:
        return 0, 0.0
    parts[0].text = text
    return item.parts.index(parts[0]), sum(voice.seconds for voice in item.voices)
