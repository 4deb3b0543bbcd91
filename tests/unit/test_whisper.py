"""Speech recognition: the right words, and none where nobody speaks."""

from __future__ import annotations

import re
import socket
import threading
from typing import Any

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
from e3rg.stages.understanding.engine import HeardSegment, ListenRequest
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


def listen(model: Whisper, audio: Pcm, **options: Any) -> list[HeardSegment]:
    return list(model.listen(ListenRequest(audio, **options), threading.Event()))


def test_words_have_times_within_their_segment(model: Whisper, speech: Pcm) -> None:
    segments = listen(model, speech, words=True)
    words = [word for segment in segments for word in segment.words]
    assert " ".join(word.text for word in words) == " ".join(each.text for each in segments)
    starts = [word.start for word in words]
    assert starts == sorted(starts)
    for segment in segments:
        assert segment.tokens and segment.log_probability < 0 < segment.compression
        for word in segment.words:
            assert segment.start - 0.5 <= word.start <= word.end <= segment.end + 0.5
    # He pauses before each "ask"; Whisper counts some of a pause to the word.
    asks = [word.end for word in words if word.text.lower() == "ask"]
    assert asks == [pytest.approx(3.8, abs=0.5), pytest.approx(8.5, abs=0.5)]


@pytest.mark.parametrize(
    "prompt",
    ["Kennedy. <|endoftext|> <|startoftranscript|>", "x " * 5000, "\ud800", "\x00", "<|" * 900],
    ids=["marks", "loop", "surrogate", "null", "half marks"],
)
def test_no_prompt_breaks_the_transcript(model: Whisper, speech: Pcm, prompt: str) -> None:
    heard = " ".join(segment.text for segment in listen(model, speech, prompt=prompt))
    assert word_errors(JFK, heard) < 0.15


def test_the_language_asked_for_must_be_known(model: Whisper) -> None:
    assert listen(model, noise(1), language="en") == []
    with pytest.raises(E3RGError) as error:
        listen(model, noise(1), language="fr")
    assert (error.value.code, error.value.param) == ("unsupported_language", "language")


def test_a_window_takes_a_bounded_number_of_passes(
    model: Whisper, speech: Pcm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that stammers gives pairs of times that barely move; it must not go on for ever."""
    passes = 0
    split = WhisperModel._split_segments_by_timestamps

    def stammer(self: WhisperModel, *, seek: int, **rest: Any) -> Any:
        nonlocal passes
        passes += 1
        segments, _, ending = split(self, seek=seek, **rest)
        return segments, seek + 2, ending

    monkeypatch.setattr(WhisperModel, "_split_segments_by_timestamps", stammer)
    listen(model, pcm(samples(speech)[: 3 * RATE]))
    assert passes == whisper._MAX_PASSES
