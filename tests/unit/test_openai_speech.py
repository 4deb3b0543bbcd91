"""/v1/audio/speech with the official client: scripted stages, and real ones for what is heard."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import jiwer
import openai
import pytest
from openai_kit import at_rest, client_of, refuses_when_full
from scripted import RATE, Script
from test_sound_encoder import decoded

from e3rg.config import load_profile
from e3rg.emotions.types import Expression
from e3rg.engines import load_engine
from e3rg.errors import E3RGError
from e3rg.gateway.protocols.openai.speech import sentences, spoken_lines
from e3rg.gateway.services import Services
from e3rg.local_context import engine_context
from e3rg.media.decode import decode_upload
from e3rg.media.limits import MediaLimits
from e3rg.media.sound_encoder import SoundFormat
from e3rg.media.types import Pcm
from e3rg.stages.speech.engine import SpeechRequest
from e3rg.stages.speech.registry import ENGINES as SPEECH
from e3rg.stages.understanding.registry import ENGINES as UNDERSTANDING
from e3rg.turn.state import Stages

FORMATS: tuple[SoundFormat, ...] = get_args(SoundFormat)
TEXT = "I walked along the river. The water was high after all that rain. My sister called me."

SHORT = "I walked along the river this morning. The water was high."


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def client(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(script.stages(), tmp_path, monkeypatch, max_calls=3) as client:
        yield client


async def say(client: openai.AsyncOpenAI, text: str = TEXT, **fields: Any) -> bytes:
    asked = {"model": "tts-1", "voice": "alloy", **fields}
    return (await client.audio.speech.create(input=text, **asked)).content


def spoken(script: Script) -> list[SpeechRequest]:
    return [what for stage, what in script.calls if isinstance(what, SpeechRequest)]


async def idle(client: openai.AsyncOpenAI, script: Script) -> None:
    await at_rest(script, lambda: say(client, "Yes."), 3)


@pytest.mark.parametrize("sound_format", FORMATS)
async def test_every_format_holds_every_sentence(
    client: openai.AsyncOpenAI, script: Script, sound_format: SoundFormat
) -> None:
    data = await say(client, response_format=sound_format)
    samples, rate = decoded(data, sound_format)
    requests = spoken(script)
    assert " ".join(each.text.strip() for each in requests) == TEXT
    assert {each.voice for each in requests} == {"af_heart"}
    seconds = sum(1000 * len(each.text.strip()) for each in requests) / RATE
    assert len(samples) / rate == pytest.approx(seconds, abs=0.12)


async def test_sound_leaves_while_the_next_sentence_is_made(
    client: openai.AsyncOpenAI, script: Script
) -> None:
    async with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=TEXT, response_format="pcm"
    ) as response:
        assert response.headers["content-type"] == "audio/pcm"
        parts = response.iter_bytes()
        first = await anext(parts)
        script.hold["speech"] = asyncio.Event()
        async with asyncio.timeout(5):
            while len(spoken(script)) < 2:
                await asyncio.sleep(0.01)
        assert len(first) > 0
        script.hold["speech"].set()
        rest = b"".join([part async for part in parts])
    assert len(first + rest) == 2 * sum(1000 * len(each.text.strip()) for each in spoken(script))


async def test_no_more_than_one_sentence_ahead(client: openai.AsyncOpenAI, script: Script) -> None:
    most = 0
    enter = script.enter

    async def watched(stage: str, what: object = None) -> None:
        nonlocal most
        await enter(stage, what)
        most = max(most, script.working[stage])

    script.enter = watched  # type: ignore[method-assign]
    await say(client, "Yes. " * 40)
    assert most == 1 and len(spoken(script)) == 40


async def test_whoever_leaves_stops_the_voice(client: openai.AsyncOpenAI, script: Script) -> None:
    async with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=TEXT * 20, response_format="pcm"
    ) as response:
        await anext(response.iter_bytes())
        script.hold["speech"] = asyncio.Event()
    await idle(client, script)
    assert len(spoken(script)) < 40


async def test_leaving_before_the_first_sound(client: openai.AsyncOpenAI, script: Script) -> None:
    script.hold["speech"] = asyncio.Event()
    for _ in range(5):
        task = asyncio.create_task(say(client))
        async with asyncio.timeout(5):
            while script.idle:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await script.until_idle()
    await idle(client, script)


async def test_hasty_clients_leak_no_place(client: openai.AsyncOpenAI, script: Script) -> None:
    for number in range(30):
        task = asyncio.create_task(say(client))
        await asyncio.sleep(0.002 * (number % 9))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0.2)
    await idle(client, script)


async def test_events(client: openai.AsyncOpenAI) -> None:
    async with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="alloy", input=TEXT, stream_format="sse"
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line async for line in response.iter_lines()]
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    data = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    samples, rate = decoded(data, "mp3")
    usage = events[-1]["usage"]
    assert events[-1]["type"] == "speech.audio.done"
    assert usage["input_tokens"] == len(TEXT)
    assert usage["output_tokens"] == pytest.approx(20 * len(samples) / rate, abs=4)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


async def test_instructions_colour_the_voice(client: openai.AsyncOpenAI, script: Script) -> None:
    await say(client, "Yes.", instructions="Speak in a cheerful, excited tone.", speed=1.25)
    await say(client, "Yes.", instructions="Do not sound angry.")
    await say(client, "Yes.")
    happy, denied, plain = spoken(script)
    assert happy.delivery.expression is Expression.HAPPY and happy.delivery.intensity > 0.5
    assert denied.delivery == plain.delivery
    assert plain.delivery.expression is Expression.NEUTRAL
    assert (happy.speed, plain.speed) == (1.25, 1.0)


async def test_a_listener_speaks_with_its_own_voice(
    client: openai.AsyncOpenAI, script: Script
) -> None:
    for model in ("e3rg", "e3rg-daniel"):
        data = await say(client, model=model, voice={"id": "daniel"}, response_format="wav")
        assert data[:4] == b"RIFF"
    assert await say(client, model="e3rg-daniel", voice=openai.omit, response_format="pcm")
    with pytest.raises(openai.BadRequestError, match="voice"):
        await say(client, voice=openai.omit)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Oh.", 1),
        ("😀", 1),
        ("...?!", 0),
        ("—", 0),
        ("See https://example.com/a.b?c=1 for $25.50 on May 5th.", None),
        ("First line\nSecond line\n\n- a point\n- \n", 3),
        ("word " * 800, None),
        ("a" * 4096, None),
    ],
)
async def test_awkward_text(
    client: openai.AsyncOpenAI, script: Script, text: str, pieces: int | None
) -> None:
    samples, _ = decoded(await say(client, text, response_format="wav"), "wav")
    requests = spoken(script)
    assert pieces is None or len(requests) == pieces
    assert all(len(each.text) <= 240 for each in requests)
    assert len(samples)
    letters = [letter for letter in "".join(each.text for each in requests) if letter.isalnum()]
    assert len(letters) >= sum(letter.isalnum() for letter in text)


@pytest.mark.parametrize(
    ("fields", "kind", "code", "param"),
    [
        ({"model": "nobody"}, openai.NotFoundError, "model_not_found", "model"),
        ({"model": "whisper-1"}, openai.BadRequestError, "model_not_supported", "model"),
        ({"voice": "nobody"}, openai.BadRequestError, "unknown_voice", "voice"),
        ({"voice": {"id": "nobody"}}, openai.BadRequestError, "unknown_voice", "voice"),
        ({"voice": 5}, openai.BadRequestError, "invalid_type", None),
        ({"response_format": "wma"}, openai.BadRequestError, "invalid_type", "response_format"),
        ({"stream_format": "ws"}, openai.BadRequestError, "invalid_type", "stream_format"),
        ({"speed": 4.0}, openai.BadRequestError, "invalid_type", "speed"),
        ({"speed": 0.1}, openai.BadRequestError, "invalid_type", "speed"),
        ({"speed": "1"}, openai.BadRequestError, "invalid_type", "speed"),
        ({"text": ""}, openai.BadRequestError, "text_empty", "input"),
        ({"text": "a" * 4097}, openai.BadRequestError, "text_too_long", "input"),
        ({"text": 5}, openai.BadRequestError, "invalid_type", "input"),
        ({"text": "你好，世界"}, openai.UnprocessableEntityError, "unsupported_language", "input"),
        ({"instructions": ["sad"]}, openai.BadRequestError, "invalid_type", "instructions"),
        ({"extra_body": {"pitch": 2}}, openai.BadRequestError, "unknown_field", "pitch"),
    ],
)
async def test_bad_input(
    client: openai.AsyncOpenAI,
    fields: dict[str, Any],
    kind: type[openai.APIStatusError],
    code: str,
    param: str | None,
) -> None:
    with pytest.raises(kind) as caught:
        await say(client, **{"text": TEXT, **fields})
    assert caught.value.code == code
    assert param is None or caught.value.param == param


async def test_speed_says_what_it_may_be(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"2\.5"):
        await say(client, speed=4.0)


async def test_a_busy_voice(client: openai.AsyncOpenAI, script: Script) -> None:
    """At the start it is said; later the stream waits, since its answer has begun."""
    script.fail["speech"] = E3RGError("speech_busy", "busy", status=503, retry_after=0.05)
    with pytest.raises(openai.InternalServerError) as caught:
        await say(client)
    assert (caught.value.status_code, caught.value.code) == (503, "speech_busy")
    script.fail_after = len(spoken(script)) + 1
    task = asyncio.create_task(say(client, response_format="pcm"))
    async with asyncio.timeout(10):
        while len(spoken(script)) < script.fail_after + 3:
            await asyncio.sleep(0.01)
    assert not task.done()
    script.fail.clear()
    assert len(await task) > 0


async def test_a_voice_that_fails_midway_breaks_the_stream(
    client: openai.AsyncOpenAI, script: Script
) -> None:
    script.fail["speech"] = E3RGError("speech_failed", "broken", status=500)
    script.fail_after = 1
    with pytest.raises(openai.APIConnectionError):
        await say(client, response_format="pcm")
    script.calls.clear()
    async with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=TEXT, stream_format="sse"
    ) as response:
        lines = [line async for line in response.iter_lines() if line.startswith("data: ")]
    assert json.loads(lines[-1][6:])["error"]["code"] == "speech_failed"
    script.fail.clear()
    await idle(client, script)


async def test_full_is_said_with_503(client: openai.AsyncOpenAI, script: Script) -> None:
    answers = await refuses_when_full(script, "speech", lambda: say(client), 3)
    assert all(answers)


def test_lines_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    services = Services.create(load_profile("local"), Script().stages())
    lines = spoken_lines("A title\n\nA line\x00 with  blanks. And more.\n***\n", services)
    assert lines == ["A title", "A line with blanks. And more."]
    assert "".join(sentences(lines)).split() == " ".join(lines).split()


def words(text: str) -> str:
    return " ".join(re.findall(r"[a-z']+", text.lower()))


async def test_what_is_spoken_is_understood_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = Script().stages()
    context = engine_context()
    speech = load_engine(SPEECH, "kokoro", context, {})
    understanding = load_engine(UNDERSTANDING, "local", context, {})
    stages = Stages(understanding, scripted.memory, scripted.dialogue, speech, scripted.avatar)
    voices = ("alloy", "onyx", "fable", "nova", "echo", "coral")
    try:
        async with client_of(stages, tmp_path / "data", monkeypatch) as client:
            for sound_format, voice in zip(FORMATS, voices, strict=True):
                data = await say(client, SHORT, voice=voice, response_format=sound_format)
                if sound_format == "pcm":
                    data = wav_of(data)
                path = tmp_path / sound_format
                path.write_bytes(data)
                assert decode_upload(path, "audio", MediaLimits(), "file").seconds > 2
                heard = await client.audio.transcriptions.create(
                    model="whisper-1", file=(f"a.{sound_format}", data)
                )
                assert jiwer.wer(words(SHORT), words(heard.text)) <= 0.15, (voice, heard.text)
    finally:
        speech.close()
        understanding.close()


def wav_of(data: bytes) -> bytes:
    from e3rg.media.sound_encoder import RAW_RATE, encode_sound

    return encode_sound(Pcm(data, RAW_RATE), "wav")
