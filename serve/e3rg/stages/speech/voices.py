"""Kokoro's English voices, named by the letters of their files: accent, gender, name."""

from __future__ import annotations

from e3rg.stages.speech.engine import Accent, Gender, VoiceInfo


def _voice(id_: str) -> VoiceInfo:
    accent: Accent = "uk" if id_[0] == "b" else "us"
    gender: Gender = "male" if id_[1] == "m" else "female"
    return VoiceInfo(id_, id_[3:].capitalize(), gender, accent)


# The English voices of the model card, those that it grades best first.
VOICES: tuple[VoiceInfo, ...] = tuple(
    _voice(id_)
    for id_ in (
        "af_heart",
        "af_bella",
        "af_nicole",
        "af_aoede",
        "af_kore",
        "af_sarah",
        "am_michael",
        "am_fenrir",
        "am_puck",
        "am_onyx",
        "bf_emma",
        "bf_isabella",
        "bf_alice",
        "bm_george",
        "bm_fable",
        "bm_daniel",
        "af_alloy",
        "af_jessica",
        "af_nova",
        "af_river",
        "af_sky",
        "am_adam",
        "am_echo",
        "am_eric",
        "am_liam",
        "am_santa",
        "bf_lily",
        "bm_lewis",
    )
)
