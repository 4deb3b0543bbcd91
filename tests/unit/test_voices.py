"""Names of voices, of three kinds, over whatever the engine has."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted import Script

from e3rg.config import load_profile
from e3rg.errors import E3RGError
from e3rg.gateway.services import Services
from e3rg.gateway.voices import OPENAI_VOICES, find_voice
from e3rg.stages.speech.engine import VoiceInfo
from e3rg.stages.speech.voices import VOICES


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Services:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    return Services.create(load_profile("local"), Script().stages())


def offer(services: Services, monkeypatch: pytest.MonkeyPatch, *voices: VoiceInfo) -> None:
    async def answer() -> tuple[VoiceInfo, ...]:
        return voices

    monkeypatch.setattr(services.stages.speech, "voices", answer)


async def test_every_name(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(services, monkeypatch, *VOICES)
    for voice in VOICES:
        assert await find_voice(services, voice.id) == voice.id
    for identity in services.identities.list():
        assert await find_voice(services, identity.id) == identity.voice
    chosen = {name: await find_voice(services, name) for name in OPENAI_VOICES}
    assert len(set(chosen.values())) == len(OPENAI_VOICES)
    for name, (gender, wanted) in OPENAI_VOICES.items():
        voice = next(voice for voice in VOICES if voice.id == chosen[name])
        assert (voice.id, voice.gender) == (wanted, gender)


def test_the_names_are_the_official_clients() -> None:
    from typing import get_args

    from openai.types.audio.speech_create_params import Voice

    literal = next(kind for kind in get_args(Voice) if get_args(kind))
    assert set(get_args(literal)) == set(OPENAI_VOICES)


async def test_another_engine_answers_by_gender(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(
        services,
        monkeypatch,
        VoiceInfo("ann", "Ann", "female", "us"),
        VoiceInfo("bob", "Bob", "male", "us"),
    )
    assert await find_voice(services, "nova") == "ann"
    assert await find_voice(services, "onyx") == "bob"
    for identity in services.identities.list():
        assert await find_voice(services, identity.id) == {"female": "ann", "male": "bob"}.get(
            identity.gender, "ann"
        )
    offer(services, monkeypatch, VoiceInfo("ann", "Ann", "female", "us"))
    assert await find_voice(services, "onyx") == "ann"


@pytest.mark.parametrize("name", ["nobody", "", "Alloy", "x" * 10_000, "../maya", "\x00"])
async def test_unknown(services: Services, name: str) -> None:
    with pytest.raises(E3RGError) as caught:
        await find_voice(services, name, "audio.voice")
    error = caught.value
    assert (error.code, error.status, error.param) == ("unknown_voice", 400, "audio.voice")
    assert "af_heart" in error.message and "daniel" in error.message and "alloy" in error.message
    assert len(error.message) < 2_000
