"""/v1/audio/transcriptions with the official client, over scripted stages and over Whisper."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import jiwer
import openai
import pytest
from openai_kit import at_rest, client_of, refuses_when_full
from scripted import Script
from shared_data import shared
from sounds import RATE, noise, pcm, read, samples, tone

from e3rg.engines import load_engine
from e3rg.errors import E3RGError
from e3rg.gateway.protocols.openai.transcription_formats import Heard
from e3rg.local_context import engine_context
from e3rg.media.encode import encode_audio
from e3rg.media.types import Pcm
from e3rg.stages.understanding.engine import HeardSegment, ListenRequest
from e3rg.stages.understanding.local import LocalUnderstanding
from e3rg.stages.understanding.registry import ENGINES
from e3rg.turn.state import Stages

JFK = (
    "And so, my fellow Americans, ask not what your country can do for you, "
    "ask what you can do for your country."
)
SRT = re.compile(
    r"(\d+\n\d\d:\d\d:\d\d,\d{3} --> \d\d:\d\d:\d\d,\d{3}\n[^\n]+\n\n)*"
)  # each cue: number, times, one line
VTT = re.compile(
    r"WEBVTT\n\n(\d\d:\d\d:\d\d\.\d{3} --> \d\d:\d\d:\d\d\.\d{3}\n(?:(?!-->)[^\n<])+\n\n)*"
)


@pytest.fixture
def script() -> Script:
    return Script(transcript="I lost my dog. He was a friend. I miss him")


@pytest.fixture
async def client(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[openai.AsyncOpenAI]:
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(uploads))
    async with client_of(script.stages(), tmp_path / "data", monkeypatch, max_calls=3) as client:
        yield client
    assert list(uploads.iterdir()) == []


WAV = encode_audio(tone(1), "wav")


async def hear(client: openai.AsyncOpenAI, data: bytes = WAV, **fields: Any) -> Any:
    asked = {"model": "whisper-1", **fields}
    return await client.audio.transcriptions.create(file=("a.wav", data), **asked)


def listened(script: Script) -> list[ListenRequest]:
    return [what for _, what in script.calls if isinstance(what, ListenRequest)]


async def idle(client: openai.AsyncOpenAI, script: Script) -> None:
    await at_rest(script, lambda: hear(client), 3)


async def test_json(client: openai.AsyncOpenAI, script: Script) -> None:
    answer = await hear(client, prompt="Rex", temperature=0.4, language="en")
    assert answer.text == "I lost my dog He was a friend I miss him"
    assert (answer.usage.type, answer.usage.seconds) == ("duration", 1.0)
    request = listened(script)[0]
    assert (request.prompt, request.temperature, request.language) == ("Rex", 0.4, "en")
    assert (request.audio.sample_rate, request.words) == (RATE, False)


async def test_harmless_fields(client: openai.AsyncOpenAI) -> None:
    vad = {"type": "server_vad", "threshold": 0.4, "silence_duration_ms": 300}
    for strategy in ("auto", vad):
        assert (await hear(client, chunking_strategy=strategy)).text


async def test_formats(client: openai.AsyncOpenAI) -> None:
    assert await hear(client, response_format="text") == (
        "I lost my dog He was a friend I miss him\n"
    )
    srt = await hear(client, response_format="srt")
    assert SRT.fullmatch(srt) and srt.startswith("1\n00:00:00,000 --> 00:00:01,000\nI lost")
    vtt = await hear(client, response_format="vtt")
    assert VTT.fullmatch(vtt) and vtt.count("-->") == 3


@pytest.mark.parametrize(
    "wanted", [None, ["word"], ["segment"], ["word", "segment"]], ids=lambda wanted: str(wanted)
)
async def test_times(client: openai.AsyncOpenAI, script: Script, wanted: list[str] | None) -> None:
    times = {} if wanted is None else {"timestamp_granularities": wanted}
    answer = await hear(client, response_format="verbose_json", **times)
    assert (answer.language, answer.duration, answer.usage.seconds) == ("en", 1.0, 1.0)
    assert (answer.words is not None) == (wanted is not None and "word" in wanted)
    assert (answer.segments is not None) == (wanted is None or "segment" in wanted)
    assert listened(script)[0].words is (answer.words is not None)
    if answer.words:
        assert [word.word for word in answer.words][:3] == ["I", "lost", "my"]
    if answer.segments:
        assert [(each.id, each.start, each.end) for each in answer.segments] == [
            (0, 0, 1), (1, 1, 2), (2, 2, 3)
        ]  # fmt: skip


async def test_streaming(client: openai.AsyncOpenAI, script: Script) -> None:
    stream = await hear(client, stream=True)
    event = await anext(stream)
    script.hold["listen"] = asyncio.Event()  # the first segment is out before the others
    assert (event.type, event.delta) == ("transcript.text.delta", "I lost my dog")
    script.hold["listen"].set()
    rest = [event async for event in stream]
    text = event.delta + "".join(each.delta for each in rest[:-1])
    assert rest[-1].type == "transcript.text.done"
    assert rest[-1].text == text == "I lost my dog He was a friend I miss him"
    assert rest[-1].usage.input_tokens == 10
    assert rest[-1].usage.total_tokens == 10 + rest[-1].usage.output_tokens


async def test_a_stream_that_fails(client: openai.AsyncOpenAI, script: Script) -> None:
    script.fail["listen"] = E3RGError("understanding_failed", "broken", status=500)
    with pytest.raises(openai.InternalServerError):
        await hear(client, stream=True)
    script.calls.clear()
    script.fail_after = 1
    stream = await hear(client, stream=True)
    with pytest.raises(openai.APIError, match="broken"):
        [event async for event in stream]
    script.fail.clear()
    await idle(client, script)


async def test_whoever_leaves_stops_the_work(client: openai.AsyncOpenAI, script: Script) -> None:
    stream = await hear(client, stream=True)
    script.hold["listen"] = asyncio.Event()
    await anext(stream)
    await stream.close()
    await idle(client, script)
    script.hold["listen"] = asyncio.Event()
    task = asyncio.create_task(hear(client))
    async with asyncio.timeout(5):
        while script.idle:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await idle(client, script)


async def test_full_is_said_with_503(client: openai.AsyncOpenAI, script: Script) -> None:
    answers = await refuses_when_full(script, "listen", lambda: hear(client), 3)
    assert all(answer.text for answer in answers)


@pytest.mark.parametrize(
    ("fields", "kind", "code", "param"),
    [
        ({"model": "nobody"}, openai.NotFoundError, "model_not_found", "model"),
        ({"model": "tts-1"}, openai.BadRequestError, "model_not_supported", "model"),
        ({"response_format": "xml"}, openai.BadRequestError, "invalid_type", "response_format"),
        ({"response_format": "diarized_json"}, openai.BadRequestError, "invalid_type", None),
        ({"temperature": 2}, openai.BadRequestError, "invalid_type", "temperature"),
        ({"temperature": "nan"}, openai.BadRequestError, "invalid_type", "temperature"),
        ({"temperature": "hot"}, openai.BadRequestError, "invalid_type", "temperature"),
        ({"language": "x" * 20}, openai.BadRequestError, "invalid_type", "language"),
        ({"include": ["logprobs"]}, openai.BadRequestError, "unsupported_parameter", "include"),
        ({"keywords": ["Rex"]}, openai.BadRequestError, "unsupported_parameter", "keywords"),
        ({"languages": ["en"]}, openai.BadRequestError, "unsupported_parameter", "languages"),
        ({"timestamp_granularities": ["word"]}, openai.BadRequestError, "unsupported_parameter",
         "timestamp_granularities"),
        ({"response_format": "verbose_json", "timestamp_granularities": ["letter"]},
         openai.BadRequestError, "invalid_type", "timestamp_granularities.0"),
        ({"stream": True, "response_format": "srt"}, openai.BadRequestError,
         "unsupported_parameter", "response_format"),
        ({"extra_body": {"beam": 5}}, openai.BadRequestError, "unknown_field", "beam"),
        ({"data": b""}, openai.UnprocessableEntityError, "audio_empty", "file"),
        ({"data": b"not a sound at all" * 99}, openai.UnprocessableEntityError,
         "audio_unreadable", "file"),
        ({"data": encode_audio(tone(130), "mp3")}, openai.UnprocessableEntityError,
         "audio_too_long", "file"),
    ],
)  # fmt: skip
async def test_bad_input(
    client: openai.AsyncOpenAI,
    fields: dict[str, Any],
    kind: type[openai.APIStatusError],
    code: str,
    param: str | None,
) -> None:
    with pytest.raises(kind) as caught:
        await hear(client, **fields)
    assert caught.value.code == code
    assert param is None or caught.value.param == param


async def test_huge_and_cut_files(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        await hear(client, b"RIFF" + bytes(51_000_000))
    assert caught.value.status_code == 413
    cut = encode_audio(tone(3), "mp3")[:9000]
    assert (await hear(client, cut)).usage.seconds < 2.9


async def test_forms_by_hand(client: openai.AsyncOpenAI) -> None:
    """Lists, objects and what is neither; see uploads.read_body."""
    url = f"{client.base_url}audio/transcriptions"
    file = {"file": ("a.wav", WAV)}
    times = "timestamp_granularities[]"
    cases: list[tuple[dict[str, Any], str | None]] = [
        ({"response_format": "verbose_json", times: ["word", "segment"]}, None),
        ({"chunking_strategy[type]": "server_vad"}, None),
        ({times: "word", "timestamp_granularities": "word"}, "duplicate_field"),
        ({"chunking_strategy[type]": ["server_vad"] * 2}, "duplicate_field"),
        ({"chunking_strategy[type]": "server_vad", "chunking_strategy[]": "a"}, "duplicate_field"),
        ({"language": ["en", "en"]}, "duplicate_field"),
        ({"language[]": "en"}, "invalid_type"),
        ({"prompt[a]": "en"}, "invalid_type"),
        ({"a[b][c]": "en"}, "unknown_field"),
        ({"response_format": "verbose_json", times: ["word"] * 20}, "invalid_type"),
        ({"include[]": ["logprobs"] * 40}, "invalid_multipart"),
    ]
    async with httpx.AsyncClient(timeout=30) as raw:
        for fields, code in cases:
            answer = await raw.post(url, data={"model": "whisper-1", **fields}, files=file)
            assert answer.status_code == (400 if code else 200), (fields, answer.text)
            assert code is None or answer.json()["error"]["code"] == code, fields
        for answer in (
            await raw.post(url, data={"model": "whisper-1"}),
            await raw.post(url, data={"model": "whisper-1"}, files={"sound": WAV}),
            await raw.post(url, files=file),
            await raw.post(url, json={"model": "whisper-1", "file": "UklGRg=="}),
        ):
            assert answer.status_code in {400, 415}, answer.text
            assert answer.json()["error"]["type"] == "invalid_request_error"


def test_captions_hold_whatever_is_said() -> None:
    heard = Heard(
        (
            HeardSegment("a --> b\n\n2 <b> & c", 3599.9996, 3599.9996, "en"),
            HeardSegment("end", 3661.5, 3662.25, "en"),
        ),
        "en",
        3700.0,
    )
    srt, vtt = heard.as_text("srt"), heard.as_text("vtt")
    assert SRT.fullmatch(srt) and VTT.fullmatch(vtt)
    assert "01:00:00,000 --> 01:00:00,001" in srt
    assert "01:01:01.500 --> 01:01:02.250\nend" in vtt
    assert "&lt;b&gt; &amp; c" in vtt
    empty = Heard((), "en", 1.0)
    assert [empty.as_text(form) for form in ("text", "srt", "vtt")] == ["\n", "", "WEBVTT\n\n"]


@pytest.fixture(scope="module")
def whisper() -> Iterator[LocalUnderstanding]:
    loaded = load_engine(ENGINES, "local", engine_context(), {})
    assert isinstance(loaded, LocalUnderstanding)
    yield loaded
    loaded.close()


@pytest.fixture
async def listener(
    whisper: LocalUnderstanding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[openai.AsyncOpenAI]:
    scripted = Script().stages()
    stages = Stages(whisper, scripted.memory, scripted.dialogue, scripted.speech, scripted.avatar)
    async with client_of(stages, tmp_path, monkeypatch) as client:
        yield client


def words(text: str) -> str:
    return " ".join(re.findall(r"[a-z']+", text.lower()))


async def test_real_speech(listener: openai.AsyncOpenAI) -> None:
    speech = read(shared("speech_jfk.flac"))
    data = encode_audio(pcm(samples(speech)), "flac")
    answer = await hear(
        listener,
        data,
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )
    assert jiwer.wer(words(JFK), words(answer.text)) < 0.15
    assert answer.duration == pytest.approx(speech.seconds, abs=0.05)
    assert [word.word for word in answer.words] == answer.text.split()
    assert all(each.tokens and each.avg_logprob < 0 for each in answer.segments)
    assert VTT.fullmatch(await hear(listener, data, response_format="vtt"))


async def test_silence_and_noise_say_nothing(listener: openai.AsyncOpenAI) -> None:
    for sound in (Pcm(bytes(2 * RATE), RATE), noise(1)):
        data = encode_audio(sound, "wav")
        assert (await hear(listener, data)).text == ""
        assert await hear(listener, data, response_format="vtt") == "WEBVTT\n\n"
        verbose = await hear(listener, data, response_format="verbose_json")
        assert (verbose.text, verbose.segments, verbose.language) == ("", [], "en")
        events = [event async for event in await hear(listener, data, stream=True)]
        assert [(event.type, event.text) for event in events] == [("transcript.text.done", "")]


@pytest.mark.parametrize("stream", [False, True])
async def test_languages_that_the_model_does_not_know(
    listener: openai.AsyncOpenAI, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError, match=r"'fr'.*it knows en") as caught:
        await hear(listener, language="fr", stream=stream)
    assert (caught.value.code, caught.value.param) == ("unsupported_language", "language")
