"""Voice activity on real speech, and on sounds that are none."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from shared_data import shared
from sounds import RATE, noise, pcm, tone

from e3rg.config import model_dir
from e3rg.errors import E3RGError
from e3rg.gateway.realtime.config import ServerVad
from e3rg.gateway.realtime.speech_input import SpeechInput, Started, Stopped
from e3rg.media.types import Pcm
from e3rg.models.store import ModelStore
from e3rg.vad.endpointing import Endpointer, SpeechStarted, SpeechStopped
from e3rg.vad.silero import WINDOW, SileroVad, VadStream

SILENCE = bytes(2 * RATE)


@pytest.fixture(scope="module")
def vad() -> SileroVad:
    net = SileroVad(ModelStore(model_dir()))
    net.load()
    return net


@pytest.fixture(scope="module")
def speech() -> bytes:
    """Eleven seconds of a speech with pauses, at 16 kHz."""
    resampler = av.AudioResampler("s16", "mono", RATE)
    with av.open(str(shared("speech_jfk.flac"))) as file:
        frames = [out for frame in file.decode(audio=0) for out in resampler.resample(frame)]
    return b"".join(frame.to_ndarray().tobytes() for frame in frames)


def probabilities(vad: SileroVad, data: bytes, step: int | None = None) -> NDArray[np.float32]:
    stream = VadStream(vad)
    size = step or len(data)
    return np.concatenate([stream.feed(data[at : at + size]) for at in range(0, len(data), size)])


def test_speech_is_heard_and_only_speech(vad: SileroVad, speech: bytes) -> None:
    heard = probabilities(vad, SILENCE + speech + SILENCE)
    assert heard[: RATE // WINDOW].max() < 0.1
    assert (heard[RATE // WINDOW : -(RATE // WINDOW)] > 0.5).mean() > 0.6
    time = np.arange(5 * RATE) / RATE
    chord = sum(np.sin(2 * np.pi * hertz * time) for hertz in (220, 277.2, 329.6, 440)) / 5
    tremolo = chord * (0.6 + 0.4 * np.sin(2 * np.pi * 5 * time))
    clicks = np.where(np.random.default_rng(1).random(5 * RATE) < 0.0005, 0.9, 0.0)
    for name, sound in (
        ("noise", noise(5)),
        ("loud noise", noise(5, level=0.4)),
        ("tone", tone(5)),
        ("chord", pcm(chord)),
        ("tremolo", pcm(tremolo)),
        ("clicks", pcm(clicks)),
    ):
        found = Endpointer().feed(probabilities(vad, sound.data).tolist())
        assert found == [], name


def test_the_size_of_what_arrives_changes_nothing(vad: SileroVad, speech: bytes) -> None:
    whole = probabilities(vad, speech)
    for step in (640, 1_022, 9_600):
        np.testing.assert_allclose(probabilities(vad, speech, step), whole, atol=1e-5)


def test_streams_do_not_mix(vad: SileroVad, speech: bytes) -> None:
    alone = probabilities(vad, speech)
    one, two = VadStream(vad), VadStream(vad)
    heard = []
    for at in range(0, len(speech), 1_024):
        heard.append(one.feed(speech[at : at + 1_024]))
        two.feed(noise(0.032, seed=at).data)
    np.testing.assert_allclose(np.concatenate(heard), alone, atol=1e-5)


def test_speech_begins_at_once_and_ends_after_silence() -> None:
    endpointer = Endpointer(threshold=0.5, silence_ms=96)
    assert endpointer.feed([0.1, 0.6, 0.1, 0.6]) == []  # a click is no speech
    assert endpointer.feed([0.6]) == [SpeechStarted(3 * WINDOW)]
    # Between the two thresholds speech goes on, and silence, once begun, too.
    assert endpointer.feed([0.4] * 20) == []
    assert endpointer.feed([0.3, 0.3, 0.9, 0.3, 0.4]) == []
    assert endpointer.feed([0.4]) == [SpeechStopped(31 * WINDOW)]
    assert endpointer.feed([0.9, 0.9]) == [SpeechStarted(31 * WINDOW)]


def test_what_was_said_is_cut_out_with_its_beginning(vad: SileroVad, speech: bytes) -> None:
    spoken = SpeechInput(vad, 60)
    spoken.configure(ServerVad(prefix_padding_ms=200, silence_duration_ms=1_500))
    sound = 3 * SILENCE + speech + 3 * SILENCE
    found = [
        change
        for at in range(0, len(sound), 3_200)
        for change in spoken.feed(Pcm(sound[at : at + 3_200], RATE))
    ]
    start, stop = found
    assert isinstance(start, Started) and isinstance(stop, Stopped)
    assert start.at_ms == pytest.approx(3_300, abs=250)
    assert stop.at_ms - start.at_ms == pytest.approx(1000 * stop.audio.seconds, abs=2)
    assert stop.audio.seconds == pytest.approx(12.2, abs=0.6)
    assert stop.audio.data == sound[32 * start.at_ms :][: len(stop.audio.data)]


def test_without_detection_the_buffer_is_bounded(vad: SileroVad) -> None:
    spoken = SpeechInput(vad, 2)
    with pytest.raises(E3RGError) as empty:
        spoken.commit()
    assert empty.value.code == "input_audio_buffer_commit_empty"
    spoken.feed(Pcm(SILENCE, RATE))
    with pytest.raises(E3RGError) as full:
        spoken.feed(Pcm(2 * SILENCE, RATE))
    assert full.value.code == "input_audio_buffer_full"
    assert spoken.commit().data == SILENCE


def test_speech_without_end_is_cut(vad: SileroVad, speech: bytes) -> None:
    spoken = SpeechInput(vad, 5)
    spoken.configure(ServerVad(silence_duration_ms=2_000))
    found = spoken.feed(Pcm(speech, RATE)) + spoken.feed(Pcm(4 * SILENCE, RATE))
    lengths = [change.audio.seconds for change in found if isinstance(change, Stopped)]
    assert len(lengths) >= 2 and max(lengths) <= 6.1
    assert [type(change) for change in found] == [Started, Stopped] * (len(found) // 2)


def test_silence_for_hours_keeps_nothing(vad: SileroVad) -> None:
    spoken = SpeechInput(vad, 120)
    spoken.configure(ServerVad())
    for _ in range(8):
        spoken.feed(Pcm(10 * SILENCE, RATE))
    assert spoken.commit().seconds <= 30


def test_a_missing_net_is_told(tmp_path: Path) -> None:
    with pytest.raises(E3RGError) as missing:
        SileroVad(ModelStore(tmp_path)).load()
    assert missing.value.code == "model_missing"
    assert "e3rg models pull" in missing.value.message
