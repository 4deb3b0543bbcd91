"""A turn's events as a chat completion, whole or in chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from e3rg.gateway import wire
from e3rg.gateway.encoding import encoded
from e3rg.gateway.protocols.openai.chat_body import AudioOut
from e3rg.gateway.protocols.openai.chat_listener import AUDIO_ID
from e3rg.gateway.protocols.openai.chat_wire import Chunks, completion, usage_json
from e3rg.media.sound_encoder import SoundEncoder, SoundFormat, encode_sound
from e3rg.media.types import Pcm
from e3rg.turn import events
from e3rg.turn.request import TurnRequest

_ROLE = {"role": "assistant", "content": None, "refusal": None}


class _Seen:
    """What a turn's events tell beside the reply itself."""

    def __init__(self, request: TurnRequest) -> None:
        self.audio_id = f"{AUDIO_ID}{request.id}"
        self.usage = events.Usage()
        self.reason = "stop"
        self.extension: dict[str, Any] = {
            "turn": request.id,
            "conversation": request.conversation,
            "identity": request.identity.id,
            "transcript": None,
            "emotion": None,
            "memory": None,
            "degraded": [],
            "usage": None,
            "timings": {},
        }

    def take(self, event: events.TurnEvent) -> None:
        match event:
            case events.TranscriptReady(transcript):
                self.extension["transcript"] = wire.transcript_json(transcript)
            case events.EmotionRecognized(emotion, delivery):
                self.extension["emotion"] = wire.emotion_json(emotion, delivery)
            case events.MemoryUsed(retrieval):
                self.extension["memory"] = wire.memory_json(retrieval)
            case events.Degraded():
                self.extension["degraded"].append(asdict(event))
            case events.UsageReported(usage):
                self.usage = usage
                self.extension["usage"] = wire.usage_json(usage)
            case events.TurnCompleted(_, reason, timings):
                self.reason = reason
                self.extension["timings"] = timings
            case events.TurnFailed(error):
                raise error

    @property
    def tokens(self) -> dict[str, Any]:
        return usage_json(self.usage.prompt_tokens, self.usage.completion_tokens)


async def stream(
    turn: AsyncGenerator[events.TurnEvent, None],
    request: TurnRequest,
    chunks: Chunks,
    speaking: bool,
    expires_at: int,
) -> AsyncGenerator[bytes, None]:
    """A turn as chunks; sound is PCM16 at 24 kHz, sentence by sentence.

    Args:
        turn: its events.
        request: what was asked.
        chunks: writes them.
        speaking: sound was asked for; then the text is the sound's transcript.
        expires_at: Unix time until which the answer can be referred to.

    Raises:
        E3RGError: what the turn failed of.
    """
    seen = _Seen(request)
    encoder: SoundEncoder | None = None
    role: dict[str, Any] = {**_ROLE, "content": None if speaking else ""}
    if speaking:
        role["audio"] = {"id": seen.audio_id}
    part = chunks.delta(role)
    async with aclosing(turn):
        async for event in turn:
            seen.take(event)
            match event:
                case events.TextDelta(text) if speaking:
                    yield part + chunks.delta({"audio": {"transcript": text}})
                    part = b""
                case events.TextDelta(text):
                    yield part + chunks.text(text)
                    part = b""
                case events.AudioChunk(audio=audio):
                    encoder = encoder or SoundEncoder("pcm", audio.sample_rate)
                    part += _sound(chunks, encoder.write(audio))
                    if part:
                        yield part
                    part = b""
    if encoder is not None:
        part += _sound(chunks, encoder.finish())
    if speaking:
        part += chunks.delta({"audio": {"expires_at": expires_at}})
    yield part + chunks.end(seen.reason, seen.tokens, seen.extension)


def _sound(chunks: Chunks, data: bytes) -> bytes:
    return chunks.delta({"audio": {"data": encoded(data)}}) if data else b""


async def whole(
    turn: AsyncGenerator[events.TurnEvent, None],
    request: TurnRequest,
    model: str,
    audio: AudioOut | None,
    expires_at: int,
) -> dict[str, Any]:
    """A turn as one answer; sound is one file.

    Args:
        turn: its events.
        request: what was asked.
        model: the listener's name.
        audio: how the answer is spoken, or None.
        expires_at: Unix time until which the answer can be referred to.

    Raises:
        E3RGError: what the turn failed of.
    """
    seen = _Seen(request)
    words: list[str] = []
    sound: list[Pcm] = []
    async with aclosing(turn):
        async for event in turn:
            seen.take(event)
            if isinstance(event, events.TextDelta):
                words.append(event.text)
            elif isinstance(event, events.AudioChunk) and audio is not None:
                sound.append(event.audio)
    text = "".join(words)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": text,
        "refusal": None,
        "annotations": [],
    }
    if audio is not None and sound:
        pcm = Pcm(b"".join(piece.data for piece in sound), sound[0].sample_rate)
        kind: SoundFormat = "pcm" if audio.format == "pcm16" else audio.format
        data = await asyncio.to_thread(encode_sound, pcm, kind)
        message["content"] = None
        message["audio"] = {
            "id": seen.audio_id,
            "data": encoded(data),
            "expires_at": expires_at,
            "transcript": text,
        }
    return completion(model, message, seen.reason, seen.tokens, seen.extension)
