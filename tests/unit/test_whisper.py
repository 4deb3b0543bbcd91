"""Speech recognition: the right words, and none where nobody speaks."""

from __future__ import annotations

import re
import socket
import threading

import jiwer
import numpy as np
import pytest
from faster_whisper import WhisperModel
from shared_data import shared
from sounds import RATE, noise, pcm, read, samples, tone

from e3rg.config import ConfigError, model_dir
from e3rg.errors import E3RGError
from e3rg.media.types import Pcm
from e3rg.models.store import ModelStore
from e3rg.stages.understanding import whisper
from e3rg.stages.understanding.whisper import Whisper

JFK = (
    "And so, my fellow Americans, ask not what your country can do for you, "
    "ask what you can do for your country."
)


@pytest.fixture(scope="module")
def model() -> Whisper:
    return Whisper.load(ModelStore(model_dir()))


@pytest.fixture(scope="module")
def speech() -> Pcm:
    return read(shared("speech_jfk.flac"))


def word_errors(said: str, heard: str) -> float:
    def plain(text: str) -> str:
        return " ".join(re.findall(r"[a-z']+", text.lower()))

    return float(jiwer.wer(plain(said), plain(heard)))


def test_speech_is_transcribed_with_times(model: Whisper, speech: Pcm) -> None:
    transcript = model.transcribe(speech)
    assert word_errors(JFK, transcript.text) < 0.15
    assert transcript.language == "en"
    assert 0.4 < transcript.confidence <= 1
    starts = [segment.start for segment in transcript.segments]
    assert starts == sorted(starts)
    assert transcript.segments[-1].end <= speech.seconds
    assert " ".join(segment.text for segment in transcript.segments) == transcript.text


def test_far_microphone_and_times_after_silence(model: Whisper, speech: Pcm) -> None:
    wait = np.zeros(4 * RATE)
    quiet = pcm(np.concatenate([wait, samples(speech) * 0.01, wait]))
    transcript = model.transcribe(quiet)
    assert word_errors(JFK, transcript.text) < 0.15
    assert transcript.segments[0].start == pytest.approx(4.2, abs=0.5)
    assert transcript.segments[-1].end == pytest.approx(15, abs=0.7)


@pytest.mark.parametrize(
    "audio",
    [
        pcm([]),
        pcm([0.5]),
        pcm(np.zeros(6 * RATE)),
        noise(6),
        noise(6, 0.5),
        noise(6, 0.0008),
        tone(6),
        Pcm(b"\x01\x00\x02", RATE),
    ],
    ids=["empty", "one", "zero", "noise", "loud", "hiss", "tone", "odd"],
)
def test_no_words_for_silence_noise_and_machines(model: Whisper, audio: Pcm) -> None:
    transcript = model.transcribe(audio)
    assert (transcript.text, transcript.segments, transcript.confidence) == ("", (), 0)


def test_wrong_rate_names_the_field(model: Whisper) -> None:
    with pytest.raises(E3RGError) as error:
        model.transcribe(Pcm(bytes(1000), 8000))
    assert (error.value.code, error.value.param) == ("audio_sample_rate", "audio")


def test_unknown_language_is_refused_at_load(model: Whisper) -> None:
    with pytest.raises(ConfigError, match="xx"):
        Whisper(model._model, ("en", "xx"))


def test_missing_model_is_named() -> None:
    with pytest.raises(E3RGError) as error:
        Whisper.load(ModelStore(model_dir()), "whisper-none")
    assert error.value.code == "model_missing"
    assert "whisper-none/model.bin" in error.value.message


def test_loads_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert Whisper.load(ModelStore(model_dir()), threads=1).transcribe(noise(1)).text == ""


def test_stops_after_the_window_at_hand(
    model: Whisper, speech: Pcm, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = pcm(np.tile(samples(speech), 4))
    stop = threading.Event()
    decode = WhisperModel.transcribe
    windows: list[int] = []

    def counting(self: WhisperModel, audio: np.ndarray, **options: object) -> object:
        windows.append(audio.size)
        stop.set()
        return decode(self, audio, **options)

    monkeypatch.setattr(WhisperModel, "transcribe", counting)
    assert model.transcribe(long, stop).text == ""
    assert len(windows) == 1
    assert windows[0] <= 17 * RATE


def test_windows_cover_all_speech_and_are_short() -> None:
    second = RATE
    speech = [
        {"start": 0, "end": 6 * second},
        {"start": 7 * second, "end": 14 * second},
        {"start": 15 * second, "end": 30 * second},
        {"start": 31 * second, "end": 32 * second},
    ]
    windows = whisper._windows(speech)
    assert windows == [
        (0, 14 * second),
        (15 * second, 32 * second),
    ]
