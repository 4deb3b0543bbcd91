"""A chat completion as a turn: the last message is what the speaker says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from e3rg.errors import E3RGError
from e3rg.gateway.bodies import unsupported, voice_name
from e3rg.gateway.catalog import Model
from e3rg.gateway.conversation import resume
from e3rg.gateway.intake import clean_text
from e3rg.gateway.new_turn import new_turn
from e3rg.gateway.protocols.openai import chat_media
from e3rg.gateway.protocols.openai.chat_body import (
    AssistantMessage,
    AudioOut,
    AudioPart,
    ChatBody,
    Extension,
    ImagePart,
    SystemMessage,
    UserMessage,
    text_of,
)
from e3rg.gateway.protocols.openai.chat_format import TextFormat
from e3rg.gateway.services import Services
from e3rg.gateway.voices import find_voice
from e3rg.media.limits import MediaLimits
from e3rg.media.types import Pcm
from e3rg.messages import Message
from e3rg.turn.request import Modality, TurnRequest

AUDIO_ID = "audio_"
"""Begins the id of a spoken answer; the id of its turn follows."""

AUDIO_S = 24 * 3600
"""An answer can be referred to for so many seconds."""

_MAX_INSTRUCTIONS = 8000
_MAX_LINES = 64


@dataclass(frozen=True, slots=True)
class _Said:
    text: str | None
    audio: Pcm | None
    frames: tuple[bytes, ...]


async def read_turn(
    services: Services, model: Model, body: ChatBody, deadline: float
) -> TurnRequest:
    """Make a turn of a chat completion.

    Args:
        services: the gateway's parts.
        model: the listener.
        body: what is asked.
        deadline: Unix time at which the turn ends.

    Raises:
        E3RGError: naming the field and the fix.
    """
    more = body.e3rg or Extension()
    listener = model.listener(more.identity, "e3rg.identity")
    if not isinstance(body.response_format, TextFormat | None):
        raise unsupported("response_format", "a listener talks; ask the chat model for JSON")
    speaking = _speaking(body)
    last = body.messages[-1]
    if not isinstance(last, UserMessage):
        raise E3RGError(
            "invalid_messages",
            "messages: the last one must be the user's, since the listener answers it",
            param="messages",
        )
    instructions = _instructions(body)
    history = await _history(services, body.messages[:-1], more.user)
    said = await _said(services, last, f"messages.{len(body.messages) - 1}.content")
    resumed = await resume(services, more.conversation, more.user, listener)
    identity = resumed.identity
    voice = voice_name(speaking.voice) if speaking is not None else None
    if voice is not None:
        identity = replace(identity, voice=await find_voice(services, voice, "audio.voice"))
    turn = new_turn(
        services.profile.turn,
        identity,
        conversation=more.conversation,
        deadline=deadline,
        seed=body.seed,
        max_tokens=body.reply_tokens,
    )
    return replace(
        turn,
        text=said.text,
        audio=said.audio,
        frames=said.frames,
        history=history or resumed.history,
        user=more.user,
        reply_with=Modality.TEXT if speaking is None else Modality.AUDIO,
        policy=more.policy,
        previous=resumed.delivery,
        temperature=turn.temperature if body.temperature is None else body.temperature,
        top_p=body.top_p,
        frequency_penalty=body.frequency_penalty,
        presence_penalty=body.presence_penalty,
        stop=body.stops,
        instructions=instructions,
        may_degrade=more.degrade == "allow",
    )


def _speaking(body: ChatBody) -> AudioOut | None:
    """How the answer shall be spoken, or None."""
    modalities = body.modalities or ["text"]
    if "audio" not in modalities:
        return None
    if "text" not in modalities:
        raise unsupported("modalities", 'sound comes with its text; add "text"')
    audio = body.audio or AudioOut()
    if body.stream and body.audio is not None and audio.format != "pcm16":
        raise unsupported("audio.format", f"{audio.format} is not streamed; use pcm16")
    return audio


def _instructions(body: ChatBody) -> str:
    lines = [text_of(m.content).strip() for m in body.messages if isinstance(m, SystemMessage)]
    instructions = "\n".join(line for line in lines if line)
    if len(instructions) > _MAX_INSTRUCTIONS:
        raise E3RGError(
            "instructions_too_long",
            f"messages: the system messages have {len(instructions)} characters; at most "
            f"{_MAX_INSTRUCTIONS} are taken",
            param="messages",
        )
    return instructions


async def _history(
    services: Services, messages: Sequence[object], user: str | None
) -> tuple[Message, ...]:
    """The newest earlier lines; sound and pictures in them are not looked at again."""
    lines: list[Message] = []
    first = max(len(messages) - _MAX_LINES, 0)
    for number, message in enumerate(messages[first:], first):
        if isinstance(message, UserMessage):
            lines.append(Message("user", text_of(message.content)))
        elif isinstance(message, AssistantMessage):
            text = text_of(message.content)
            if message.audio is not None:
                heard, text = await _spoken(
                    services, message.audio.id, user, f"messages.{number}.audio.id"
                )
                # What the user had said before, if it was sound alone, is known by that turn.
                if lines and lines[-1].role == "user" and not lines[-1].content:
                    lines[-1] = Message("user", heard)
            lines.append(Message("assistant", text))
    return tuple(line for line in lines if line.content)


async def _spoken(services: Services, name: str, user: str | None, param: str) -> tuple[str, str]:
    """What was said in the turn of a spoken answer, and the answer."""
    record = None
    if name.startswith(AUDIO_ID):
        record = await services.turns.get(name.removeprefix(AUDIO_ID)[:64])
    if record is None or record.user != user or record.created + AUDIO_S < time.time():
        raise E3RGError(
            "audio_not_found",
            f"{param}: there is no answer {name[:64]!r} of this user in the last "
            f"{AUDIO_S // 3600} hours; send its transcript as content",
            param=param,
            status=404,
        )
    return record.text, record.reply


async def _said(services: Services, message: UserMessage, param: str) -> _Said:
    limits = services.profile.turn
    content = message.content
    parts = [] if isinstance(content, str) else content
    pictures = [part.image_url.url for part in parts if isinstance(part, ImagePart)]
    sounds = [part.input_audio.data for part in parts if isinstance(part, AudioPart)]
    most = MediaLimits().max_frames
    if len(sounds) > 1 or len(pictures) > most:
        raise E3RGError(
            "too_many_media",
            f"{param}: at most one recording and {most} pictures are taken",
            param=param,
        )
    text = text_of(content)
    if not sounds or text.strip():
        text = clean_text(text, limits.max_text_chars, limits.languages, param)
    frames = [await chat_media.face(url, param) for url in pictures]
    audio = await chat_media.voice(services, sounds[0], param) if sounds else None
    if audio is not None and text:
        # Both are what was said; a turn of its own would take the written words alone.
        transcript = await services.stages.understanding.transcribe(audio)
        text = f"{text} {transcript.text}".strip()[: limits.max_text_chars]
    return _Said(text or None, audio, tuple(frames))
