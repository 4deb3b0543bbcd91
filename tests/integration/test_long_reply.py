"""A reply of two minutes through the real voice and avatar: measured in the finished file.

The words are given, since no model here talks for two minutes; everything after them is real.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jiwer
import pytest

from e3rg.config import data_dir, load_profile
from e3rg.identities.store import IdentityStore
from e3rg.inprocess import local_stages
from e3rg.media.decode import decode_upload
from e3rg.media.limits import MediaLimits
from e3rg.media.mux import write_mp4
from e3rg.media.probe import measure_skew
from e3rg.media.types import Pcm
from e3rg.stages.dialogue.engine import DialogueRequest, TextDelta
from e3rg.turn.conductor import Turn
from e3rg.turn.events import TurnCompleted, VideoFrames
from e3rg.turn.request import TurnRequest
from e3rg.turn.state import Stages

SENTENCES = (
    "I'm so sorry that you lost your dog yesterday.",
    "Fourteen years is a long time, and he was there for all of it.",
    "Of course the house feels empty now!",
    "Did he have a favourite place to sleep?",
    "No.",
    "Some people keep the basket for 3 months, others give it away on day 1; both are right.",
    "You paid $40 for his last medicine, and you'd have paid a thousand.",
)


@dataclass
class Narrator:
    """A dialogue engine that reads out a text."""

    text: str

    async def stream(self, request: DialogueRequest) -> AsyncGenerator[TextDelta, None]:
        for word in self.text.split(" "):
            yield TextDelta(word + " ")
        yield TextDelta("", "stop", 1, len(self.text.split()))


@pytest.fixture
async def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stages]:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path / "data"))
    async with local_stages(load_profile("local")) as loaded:
        yield loaded


async def tell(stages: Stages, text: str, output: Path) -> Turn:
    request = TurnRequest(
        id="turn_long",
        conversation="conv_long",
        identity=IdentityStore(data_dir() / "identities").default(),
        deadline=2**40,
        text="I lost my dog yesterday.",
        max_sentences=1000,
    )
    turn = Turn(replace(stages, dialogue=Narrator(text)), request)
    packets: list[Any] = []
    sound = bytearray()
    rate = 0
    async for event in turn.events():
        if isinstance(event, VideoFrames):
            packets += event.packets
            sound += event.audio.data
            rate = event.audio.sample_rate
    assert isinstance(event, TurnCompleted), event
    write_mp4(packets, Pcm(bytes(sound), rate), output)
    return turn


def plain(text: str) -> str:
    """Words alone, and numbers as words, since either way of writing them is right."""
    for written, words in (("$40", "forty dollars"), ("3 ", "three "), ("day 1", "day one")):
        text = text.replace(written, words)
    return " ".join(re.sub(r"[^a-z' ]", " ", text.lower()).split())


@pytest.mark.timeout(900)
async def test_two_minutes_do_not_drift_and_are_understood(stages: Stages, tmp_path: Path) -> None:
    clip = tmp_path / "long.mp4"
    text = " ".join(SENTENCES * 6)
    turn = await tell(stages, text, clip)
    report = measure_skew(clip)
    assert report.audio_s > 115
    assert report.skew_ms <= 40
    assert report.drift_ms == 0
    assert report.video_s == pytest.approx(report.audio_s, abs=0.04)
    assert report.frames == turn.state.usage.video_frames
    # What is heard in the file's own sound, coded and decoded, is what was said.
    limits = MediaLimits(max_seconds=300)
    audio = decode_upload(clip, "audio", limits, "audio").audio
    assert audio is not None
    once = Pcm(audio.data[: len(audio.data) // 6], audio.sample_rate)
    heard = (await stages.understanding.transcribe(once)).text
    error = jiwer.wer(plain(" ".join(SENTENCES)), plain(heard))
    print(f"word error {error:.3f}: {heard}")
    assert error < 0.15


async def test_only_punctuation_is_a_whole_reply_without_sound(
    stages: Stages, tmp_path: Path
) -> None:
    turn = Turn(
        replace(stages, dialogue=Narrator("... ?! 🙂")),
        TurnRequest(
            id="turn_mute",
            conversation="conv_mute",
            identity=IdentityStore(data_dir() / "identities").default(),
            deadline=2**40,
            text="Hello.",
        ),
    )
    seen = [event async for event in turn.events()]
    assert isinstance(seen[-1], TurnCompleted)
    assert turn.state.usage.video_frames == 0
