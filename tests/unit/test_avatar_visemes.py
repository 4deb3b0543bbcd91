"""Mouth shapes: closed in silence and on m, b, p; open on vowels; on time; joined smoothly."""

from __future__ import annotations

import numpy as np
import pytest
from avatar_kit import FPS, RATE, hum, silence, spoken
from hypothesis import given, settings
from hypothesis import strategies as st

from e3rg.media.types import Pcm, Phoneme
from e3rg.stages.avatar.visemes import Mouth, mouth_track

JAW, WIDTH, PUCKER, PRESS, _, LOWER, _ = range(7)


def shape_of(symbol: str) -> Mouth:
    track = mouth_track(spoken(symbol, each=0.4), hum(10), 10, FPS)
    return Mouth(*track[5].tolist())


def test_silence_is_a_closed_still_mouth() -> None:
    for phonemes in ((), spoken("hɛlO wɜld"), (Phoneme("", 0, 1),)):
        assert not mouth_track(phonemes, silence(25), 25, FPS).any()


def test_a_pause_in_speech_closes_the_mouth() -> None:
    audio = Pcm(hum(10).data + silence(15).data + hum(10).data, RATE)
    phonemes = (*spoken("ɑɑɑɑ", each=0.1), *spoken("ɑɑɑɑ", each=0.1, start=1.0))
    track = mouth_track(phonemes, audio, 35, FPS)
    assert not track[10:25].any()
    assert track[2:8, JAW].min() > 0.5
    assert track[27:33, JAW].min() > 0.5
    by_energy = mouth_track((), audio, 35, FPS)
    assert not by_energy[10:25].any()
    assert by_energy[2:8, JAW].min() > 0.2


@pytest.mark.parametrize("symbol", "mbp")
def test_every_closure_is_seen_at_any_phase(symbol: str) -> None:
    # A closure of 50 ms between wide vowels, begun anywhere within a frame.
    for offset in np.arange(0, 0.04, 0.005):
        phonemes = (
            Phoneme("ɑ", 0.0, 0.3 + offset),
            Phoneme(symbol, 0.3 + offset, 0.35 + offset),
            Phoneme("ɑ", 0.35 + offset, 0.8),
        )
        track = mouth_track(phonemes, hum(20), 20, FPS)
        shut = np.flatnonzero(track[:, JAW] < 0.08)
        assert len(shut) >= 1
        times = (shut + 0.5) / FPS
        assert np.all(np.abs(times - (0.325 + offset)) <= 0.025 + 1 / FPS)


def test_mouth_neither_leads_nor_lags_by_more_than_a_frame() -> None:
    for start in np.arange(0.2, 0.24, 0.008):
        track = mouth_track((Phoneme("ɑ", start, start + 0.4),), hum(25), 25, FPS)
        times = (np.arange(25) + 0.5) / FPS
        moving = times[track[:, JAW] > 0.02]
        assert moving[0] >= start - 1 / FPS
        assert moving[0] <= start + 1.5 / FPS
        assert moving[-1] <= start + 0.4 + 1 / FPS
        assert moving[-1] >= start + 0.4 - 1.5 / FPS


def test_sounds_look_like_themselves() -> None:
    assert shape_of("ɑ").jaw > shape_of("ɛ").jaw > shape_of("i").jaw
    assert shape_of("i").width > 0.4
    assert shape_of("u").width < -0.4
    assert shape_of("u").pucker > 0.6
    assert shape_of("m").press > 0.5
    assert shape_of("m").jaw < 0.05
    assert shape_of("f").lower < -0.3
    assert shape_of("s").jaw < 0.3
    assert shape_of("v") == shape_of("f")


def test_diphthongs_move() -> None:
    track = mouth_track((Phoneme("O", 0, 0.4),), hum(10), 10, FPS)
    assert track[7, PUCKER] < track[2, PUCKER] or track[7, JAW] < track[2, JAW] - 0.05


def test_neighbours_colour_a_consonant() -> None:
    rounded = mouth_track(spoken("utu"), hum(9), 9, FPS)[4]
    spread = mouth_track(spoken("iti"), hum(9), 9, FPS)[4]
    assert rounded[PUCKER] > spread[PUCKER] + 0.1
    assert rounded[WIDTH] < spread[WIDTH] - 0.1


def test_stress_length_and_unknown_marks_are_ignored() -> None:
    plain = mouth_track(spoken("ɑ", each=0.4), hum(10), 10, FPS)
    marked = mouth_track((Phoneme("ˈɑː", 0, 0.4),), hum(10), 10, FPS)
    assert np.array_equal(plain, marked)
    assert not mouth_track((Phoneme("?", 0, 0.4), Phoneme("中", 0, 0.4)), hum(10), 10, FPS).any()


def test_lips_do_not_jump() -> None:
    track = mouth_track(spoken("wɪljutɛlmimɔɹəbaʊtɪt", each=0.07), hum(40), 40, FPS)
    steps = np.abs(np.diff(track[:, JAW]))
    assert steps.max() < 0.55
    assert track[:, JAW].std() > 0.05


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=3), st.floats(-1, 3), st.floats(0, 0.5)), max_size=12),
    st.integers(0, 30),
)
def test_any_timing_gives_bounded_shapes(
    sounds: list[tuple[str, float, float]], frames: int
) -> None:
    phonemes = tuple(Phoneme(s, start, start + length) for s, start, length in sounds)
    track = mouth_track(phonemes, hum(frames), frames, FPS)
    assert track.shape == (frames, 7)
    assert np.isfinite(track).all()
    assert np.abs(track).max(initial=0) <= 1
    assert (track[:, LOWER] >= -1).all()
    assert (track[:, PRESS] >= 0).all()
