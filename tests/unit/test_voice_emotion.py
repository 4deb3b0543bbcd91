"""Prosody is measured right, arousal follows it, and what is no voice says nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import psutil
import pytest
from shared_data import shared
from sounds import RATE, babble, noise, pcm, read, samples, tone

from e3rg.emotions.types import Category
from e3rg.media.types import Pcm
from e3rg.stages.understanding.prosody import Prosody, measure
from e3rg.stages.understanding.voice_emotion import (
    MAX_CONFIDENCE,
    affect,
    recognize_voice,
    score,
)

CALM = Prosody(3.0, 150.0, 8.0, 0.02, -20.0, 6.0, -13.6, 12.0, 3.4, 0.1)


def measured(audio: Pcm) -> Prosody:
    prosody = measure(audio)
    assert prosody is not None
    return prosody


@pytest.mark.parametrize("pitch", [80.0, 120.0, 210.0, 330.0])
def test_pitch_and_its_range(pitch: float) -> None:
    prosody = measured(babble(3, pitch=pitch, swing=3))
    assert 12 * np.log2(prosody.pitch / pitch) == pytest.approx(0, abs=0.7)
    assert prosody.pitch_range == pytest.approx(5.5, abs=1)


def test_syllable_rate() -> None:
    assert measured(babble(4, rate=3)).rate == pytest.approx(3, abs=0.7)
    assert measured(babble(4, rate=5)).rate == pytest.approx(5, abs=0.9)


def test_effort_and_pauses() -> None:
    assert measured(babble(3, tilt=0.8)).effort > measured(babble(3, tilt=2)).effort + 5
    gap = np.zeros(2 * RATE)
    broken = pcm(np.concatenate([samples(babble(2)), gap, samples(babble(2))]))
    assert measured(broken).pauses > measured(babble(4)).pauses + 0.2


def test_gain_and_offset_change_nothing_but_the_level() -> None:
    loud, quiet = measured(babble(3)), measured(pcm(samples(babble(3)) * 0.1 + 0.2))
    assert quiet.level == pytest.approx(loud.level - 20, abs=1)
    for name in ("pitch", "pitch_range", "effort", "rate"):
        assert getattr(quiet, name) == pytest.approx(getattr(loud, name), rel=0.08, abs=0.3), name


@pytest.mark.parametrize(
    "audio",
    [
        pcm([]),
        pcm(np.zeros(100)),
        pcm(np.zeros(5 * RATE)),
        noise(5),
        noise(5, 0.001),
        tone(5),
        tone(5, 60.0),
        pcm(np.where(np.arange(3 * RATE) % 4000, 0, 0.9)),
        babble(0.1),
    ],
    ids=["empty", "short", "zero", "noise", "hiss", "tone", "hum", "clicks", "instant"],
)
def test_no_voice_no_opinion(audio: Pcm) -> None:
    assert recognize_voice(audio) is None


def test_scores_are_distributions_with_low_confidence() -> None:
    for audio in (babble(3), babble(3, tilt=0.5, rate=6, swing=8, pitch=260), babble(0.8)):
        opinion = recognize_voice(audio)
        assert opinion is not None
        assert set(opinion.categories) == set(Category)
        assert sum(opinion.categories.values()) == pytest.approx(1)
        assert 0 < opinion.confidence <= MAX_CONFIDENCE


@pytest.mark.parametrize(
    ("name", "more"),
    [("effort", -8.0), ("rate", 5.0), ("pitch_range", 12.0), ("pitch", 240.0)],
)
def test_arousal_rises_with_each_measure(name: str, more: float) -> None:
    assert affect(dataclasses.replace(CALM, **{name: more}))[1] > affect(CALM)[1] + 0.03


def test_calm_is_neutral_slack_is_sad_and_pressed_is_neither() -> None:
    slack = dataclasses.replace(CALM, effort=-24.0, rate=2.2, pitch_range=3.0, pitch=110.0)
    pressed = dataclasses.replace(CALM, effort=-4.0, rate=5.0, pitch_range=12.0, pitch=230.0)
    best = {
        name: max(opinion.categories, key=lambda each: opinion.categories[each])
        for name, opinion in (
            ("calm", score(CALM)),
            ("slack", score(slack)),
        )
    }
    assert best == {"calm": Category.NEUTRAL, "slack": Category.SAD}
    aroused = score(pressed).categories
    lively = (Category.HAPPY, Category.ANGRY, Category.FEAR, Category.SURPRISED)
    assert sum(aroused[each] for each in lively) > 0.7
    assert score(pressed).confidence > score(CALM).confidence


def test_a_speech_is_aroused_and_more_so_when_played_faster() -> None:
    speech = read(shared("speech_jfk.flac"))
    whole = measured(speech)
    assert affect(whole)[1] > 0.3
    wave = samples(speech)
    fast = np.interp(np.arange(0, wave.size, 1.25), np.arange(wave.size), wave)
    quick = measured(pcm(fast))
    assert quick.pitch / whole.pitch == pytest.approx(1.25, rel=0.06)
    assert affect(quick)[1] > affect(whole)[1]


def test_long_audio_is_bounded_and_memory_flat() -> None:
    long = pcm(np.tile(samples(babble(6)), 20))
    assert measured(long).voiced_s <= 30
    process = psutil.Process()
    for _ in range(3):
        measure(long)
    before = process.memory_info().rss
    for _ in range(5):
        measure(long)
    assert process.memory_info().rss - before < 30_000_000
