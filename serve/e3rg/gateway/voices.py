"""The voices that a client may name: the engine's own, the identities', and OpenAI's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from e3rg.errors import E3RGError
from e3rg.gateway.services import Services
from e3rg.stages.speech.engine import Gender, VoiceInfo

OPENAI_VOICES: dict[str, tuple[Gender, str]] = {
    "alloy": ("female", "af_alloy"),
    "ash": ("male", "am_michael"),
    "ballad": ("male", "bm_george"),
    "coral": ("female", "af_bella"),
    "echo": ("male", "am_echo"),
    "fable": ("male", "bm_fable"),
    "onyx": ("male", "am_onyx"),
    "nova": ("female", "af_nova"),
    "sage": ("female", "af_sarah"),
    "shimmer": ("female", "af_kore"),
    "verse": ("male", "am_puck"),
    "marin": ("female", "af_heart"),
    "cedar": ("male", "am_fenrir"),
}
"""OpenAI's name → gender, and the Kokoro voice that stands in for it: the one of the same name
where there is one. An engine without that voice gives another of the gender
(https://platform.openai.com/docs/guides/text-to-speech#voice-options)."""


async def find_voice(services: Services, name: str, param: str = "voice") -> str:
    """The speech engine's voice of a name.

    Args:
        services: the speech stage and the identities.
        name: voice of the engine, id of an identity (who has a voice), or one of OpenAI's names.
        param: the field, for messages.

    Raises:
        E3RGError: ``unknown_voice`` (400), with the names that there are.
    """
    voices = await services.stages.speech.voices()
    if name in {voice.id for voice in voices}:
        return name
    identities = await asyncio.to_thread(services.identities.list)
    for identity in identities:
        if identity.id == name:
            return _available(voices, identity.voice, identity.gender)
    if name in OPENAI_VOICES:
        gender, voice = OPENAI_VOICES[name]
        return _available(voices, voice, gender)
    known = (
        ("voices", [voice.id for voice in voices]),
        ("identities", [identity.id for identity in identities[:32]]),
        ("OpenAI's names", list(OPENAI_VOICES)),
    )
    lists = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in known)
    raise E3RGError("unknown_voice", f"there is no voice {name[:64]!r}; {lists}", param=param)


def _available(voices: Sequence[VoiceInfo], wanted: str, gender: str) -> str:
    """The wanted voice, or else the engine's first of the gender, or its first."""
    if any(voice.id == wanted for voice in voices):
        return wanted
    return next((voice.id for voice in voices if voice.gender == gender), voices[0].id)
