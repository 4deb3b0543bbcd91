"""/v1/chat/completions of a listener with the official client, over scripted stages."""

from __future__ import annotations

import asyncio
import base64
import io
import time
import wave
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import av
import openai
import pytest
from openai_kit import LISTENER, client_of, said
from scripted import JPEG, REPLY, Script

from e3rg.errors import E3RGError
from e3rg.stages.dialogue.engine import DialogueRequest
from e3rg.stages.understanding.engine import Utterance

PICTURE = "data:image/jpeg;base64," + base64.b64encode(JPEG).decode()


def recording(seconds: float = 0.5) -> str:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 16_000, 0, "NONE", ""))
        sound.writeframes(b"\x00\x10\x00\xf0" * int(8_000 * seconds))
    return base64.b64encode(file.getvalue()).decode()


def parts(*given: Any) -> list[Any]:
    return [{"role": "user", "content": list(given)}]


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def picture(url: str = PICTURE) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def sound(data: str) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def client(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(script.stages(), tmp_path, monkeypatch, max_turns=2) as client:
        yield client


async def ask(client: openai.AsyncOpenAI, **fields: Any) -> Any:
    return await client.chat.completions.create(**{"model": LISTENER, "messages": said()} | fields)


async def chunks(client: openai.AsyncOpenAI, **fields: Any) -> list[Any]:
    return [chunk async for chunk in await ask(client, stream=True, **fields)]


def prompt(script: Script) -> DialogueRequest:
    request = [what for stage, what in script.calls if stage == "dialogue"][-1]
    assert isinstance(request, DialogueRequest)
    return request


async def test_a_whole_answer(client: openai.AsyncOpenAI) -> None:
    raw = await client.chat.completions.with_raw_response.create(model=LISTENER, messages=said())
    assert raw.headers["x-request-id"]
    answer = raw.parse()
    assert (answer.object, answer.model) == ("chat.completion", LISTENER)
    assert abs(answer.created - time.time()) < 60
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", REPLY)
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 50,
        "completion_tokens": len(REPLY.split()),
        "total_tokens": 50 + len(REPLY.split()),
    }
    more = (answer.model_extra or {})["e3rg"]
    assert (more["emotion"]["label"], more["degraded"]) == ("devastated", [])
    assert more["memory"]["exemplars"][0]["id"] == "sad-01"
    assert more["timings"]["total"] > 0
    turn = await client.get(f"/turns/{more['turn']}", cast_to=object)
    assert turn["text"] == REPLY  # type: ignore[index]


async def test_a_stream(client: openai.AsyncOpenAI) -> None:
    seen = await chunks(client)
    assert len({chunk.id for chunk in seen}) == 1
    assert {chunk.object for chunk in seen} == {"chat.completion.chunk"}
    assert seen[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in seen) == REPLY
    assert [c.choices[0].finish_reason for c in seen if c.choices[0].finish_reason] == ["stop"]
    assert all("usage" not in chunk.model_fields_set for chunk in seen)
    assert seen[-1].model_extra["e3rg"]["emotion"]["category"] == "sad"


async def test_the_usage_of_a_stream_is_its_last_chunk(client: openai.AsyncOpenAI) -> None:
    *seen, last = await chunks(client, stream_options={"include_usage": True})
    assert all(chunk.usage is None and chunk.choices for chunk in seen)
    assert all("usage" in chunk.model_fields_set for chunk in seen)
    assert (last.choices, last.usage.total_tokens) == ([], 50 + len(REPLY.split()))
    assert last.model_extra["e3rg"]["turn"]


async def test_messages_become_a_turn(client: openai.AsyncOpenAI, script: Script) -> None:
    messages = [
        {"role": "system", "content": "Call her Ann."},
        {"role": "developer", "content": [words("Be brief.")]},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello Ann.", "refusal": None, "annotations": []},
        {"role": "user", "content": [words("I lost"), words("my dog.")]},
    ]
    await ask(client, messages=messages, stop=["um", "er"], seed=5, temperature=0.9, top_p=0.5)
    request = prompt(script)
    system, *talk = request.messages
    assert "Call her Ann.\nBe brief." in system.content
    assert [m.content for m in talk][-3:-1] == ["Hello.", "Hello Ann."]
    assert talk[-1].content.endswith("I lost my dog.")
    assert (request.stop, request.seed) == (("um", "er"), 5)
    assert (request.temperature, request.top_p) == (0.9, 0.5)


async def test_what_a_listener_takes_beyond(client: openai.AsyncOpenAI, script: Script) -> None:
    more = {"user": "ann", "conversation": "c1", "identity": "daniel", "policy": "mirror"}
    first = await ask(client, extra_body={"e3rg": more})
    assert first.model_extra["e3rg"]["identity"] == "daniel"
    assert [episode.user for episode in script.episodes] == ["ann"]
    await ask(client, messages=said("And now?"), extra_body={"e3rg": more})
    assert REPLY in [message.content for message in prompt(script).messages]
    named = await ask(client, model="e3rg-clara")
    assert (named.model, named.model_extra["e3rg"]["identity"]) == ("e3rg-clara", "clara")
    with pytest.raises(openai.BadRequestError, match="send one of them") as caught:
        await ask(client, model="e3rg-clara", extra_body={"e3rg": more})
    assert (caught.value.code, caught.value.param) == ("identity_conflict", "e3rg.identity")


async def test_a_face_and_a_voice(client: openai.AsyncOpenAI, script: Script) -> None:
    answer = await ask(client, messages=parts(picture(), sound(recording())))
    assert answer.model_extra["e3rg"]["transcript"]["text"] == script.transcript
    utterance = [what for stage, what in script.calls if stage == "understanding"][-1]
    assert isinstance(utterance, Utterance)
    assert utterance.text == script.transcript
    assert utterance.audio is not None and utterance.audio.sample_rate == 16_000
    assert len(utterance.frames) == 1 and utterance.frames[0][:2] == b"\xff\xd8"
    await ask(client, messages=parts(words("Listen:"), sound(recording())))
    assert prompt(script).messages[-1].content.endswith(f"Listen: {script.transcript}")


@pytest.mark.parametrize("kind", ["wav", "mp3", "flac", "opus", "aac", "pcm16"])
async def test_a_spoken_answer(client: openai.AsyncOpenAI, script: Script, kind: str) -> None:
    answer = await ask(
        client, modalities=["text", "audio"], audio={"voice": "af_heart", "format": kind}
    )
    message = answer.choices[0].message
    assert message.content is None
    assert message.audio.transcript == REPLY
    data = base64.b64decode(message.audio.data)
    heard = answer.model_extra["e3rg"]["usage"]["audio_seconds_out"]
    if kind == "pcm16":
        assert len(data) / 2 / 24_000 == pytest.approx(heard)
        return
    with av.open(io.BytesIO(data)) as file:
        frames = list(file.decode(audio=0))
    assert sum(f.samples / f.sample_rate for f in frames) == pytest.approx(heard, abs=0.15)


async def test_a_spoken_stream_and_its_sequel(client: openai.AsyncOpenAI, script: Script) -> None:
    seen = await chunks(
        client,
        messages=parts(sound(recording())),
        modalities=["text", "audio"],
        audio={"voice": "marin", "format": "pcm16"},
    )
    deltas = [chunk.choices[0].delta for chunk in seen]
    assert not any(delta.content for delta in deltas)
    audio = [delta.audio for delta in deltas if delta.audio]
    name = audio[0].id
    assert "".join(piece.transcript or "" for piece in audio) == REPLY
    assert sum(len(base64.b64decode(piece.data or "")) for piece in audio) > 24_000
    assert audio[-1].expires_at > time.time() + 3600
    sequel: list[Any] = [
        *parts(sound(recording())),
        {"role": "assistant", "audio": {"id": name}},
        *said("It hurts."),
    ]
    await ask(client, messages=sequel)
    told = [message.content for message in prompt(script).messages]
    assert told[-3:-1] == [script.transcript, REPLY]
    for stolen in ({"e3rg": {"user": "eve"}}, {"e3rg": {"user": "bob"}}):
        with pytest.raises(openai.NotFoundError) as caught:
            await ask(client, messages=sequel, extra_body=stolen)
        assert caught.value.code == "audio_not_found"


async def test_lost_sound_is_said(client: openai.AsyncOpenAI, script: Script) -> None:
    script.fail["speech"] = E3RGError("speech_busy", "busy", status=503)
    answer = await ask(client, modalities=["text", "audio"])
    assert (answer.choices[0].message.content, answer.choices[0].message.audio) == (REPLY, None)
    (lost,) = answer.model_extra["e3rg"]["degraded"]
    assert (lost["wanted"], lost["code"]) == ("audio", "speech_busy")
    with pytest.raises(openai.InternalServerError) as caught:
        await ask(client, modalities=["text", "audio"], extra_body={"e3rg": {"degrade": "never"}})
    assert (caught.value.status_code, caught.value.code) == (503, "speech_busy")


async def test_a_failure_before_the_first_word_has_its_status(
    client: openai.AsyncOpenAI, script: Script
) -> None:
    script.fail["dialogue"] = E3RGError("dialogue_unavailable", "away", status=503)
    for stream in (True, False):
        with pytest.raises(openai.InternalServerError) as caught:
            await ask(client, stream=stream)
        assert (caught.value.status_code, caught.value.code) == (503, "dialogue_unavailable")


async def test_a_failure_in_the_midst_is_told_in_the_stream(
    client: openai.AsyncOpenAI, script: Script
) -> None:
    script.fail["speech"] = E3RGError("speech_failed", "the voice broke", status=502)
    seen = []
    with pytest.raises(openai.APIError, match="the voice broke") as caught:
        async for chunk in await ask(
            client,
            stream=True,
            modalities=["text", "audio"],
            extra_body={"e3rg": {"degrade": "never"}},
        ):
            seen.append(chunk)
    assert seen and caught.value.code == "speech_failed"


@pytest.mark.parametrize("stream", [True, False])
async def test_leaving_stops_the_turn(
    client: openai.AsyncOpenAI, script: Script, stream: bool
) -> None:
    script.hold["dialogue"] = asyncio.Event()
    asking = [asyncio.create_task(ask(client, stream=stream)) for _ in range(2)]
    await script.until_working("dialogue", 2)
    with pytest.raises(openai.InternalServerError) as caught:
        await ask(client)
    assert (caught.value.status_code, caught.value.code) == (503, "overloaded")
    for task in asking:
        task.cancel()
    await script.until_idle()
    script.hold["dialogue"].set()
    async with asyncio.timeout(10):
        while True:  # until the places are given back, after what was cut short is recorded
            try:
                answer = await ask(client)
                break
            except openai.InternalServerError:
                await asyncio.sleep(0.05)
    assert answer.choices[0].message.content == REPLY
