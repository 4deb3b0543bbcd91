"""The realtime protocol over scripted stages, through the official client."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from realtime_kit import Talk, silence, talk
from scripted import REPLY, Script
from sounds import babble

from e3rg.config import GatewayConfig, load_profile
from e3rg.errors import E3RGError
from e3rg.gateway.realtime.formats import Resampler, decode, encode
from e3rg.inprocess import served
from e3rg.media.types import Pcm
from e3rg.stages.dialogue.engine import DialogueRequest
from e3rg.stages.understanding.engine import Utterance

JPEG = cv2.imencode(".jpg", np.full((64, 64, 3), 120, np.uint8))[1].tobytes()
PICTURE = "data:image/jpeg;base64," + base64.b64encode(JPEG).decode()
MANUAL = {"input": {"turn_detection": None}}


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def address(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    gateway = GatewayConfig(max_turns=2, max_sessions=4)
    profile = load_profile("local").model_copy(update={"gateway": gateway})
    async with served(profile, script.stages()) as address:
        yield address


@pytest.fixture
async def talking(address: str) -> AsyncIterator[Talk]:
    async with talk(address) as talking:
        yield talking


def asked(script: Script, stage: str) -> list[Any]:
    return [what for name, what in script.calls if name == stage]


async def test_a_text_reply_in_the_order_of_the_api(talking: Talk, script: Script) -> None:
    await talking.configure(output_modalities=["text"], instructions="Be brief.")
    item = await talking.say()
    response = await talking.reply(metadata={"topic": "dogs"})
    assert (response["status"], response["metadata"]) == ("completed", {"topic": "dogs"})
    assert response["output"][0]["content"] == [{"type": "output_text", "text": REPLY}]
    assert response["usage"]["total_tokens"] == 50 + len(REPLY.split(" "))
    names = list(dict.fromkeys(talking.names))
    assert names == [
        "session.created",
        "session.updated",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
        "response.e3rg.emotion",
        "response.e3rg.memory",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.e3rg.timings",
        "response.done",
    ]
    assert "".join(e["delta"] for e in talking.of("response.output_text.delta")) == REPLY
    assert talking.of("conversation.item.added")[-1]["previous_item_id"] == item
    prompt: DialogueRequest = asked(script, "dialogue")[0]
    assert "Be brief." in prompt.messages[0].content
    assert prompt.messages[-1].content.endswith("I lost my dog.")


async def test_the_conversation_goes_on_as_its_items_say(talking: Talk, script: Script) -> None:
    await talking.configure(output_modalities=["text"])
    await talking.say("My name is Ann.")
    await talking.reply()
    await talking.say("I had a dog.")
    await talking.reply()
    lines = [message.content for message in asked(script, "dialogue")[-1].messages[-3:]]
    assert lines[0] == "My name is Ann."
    assert lines[1] == REPLY
    assert lines[2].endswith("I had a dog.")
    first = talking.of("conversation.item.added")[0]["item"]["id"]
    await talking.send("conversation.item.delete", item_id=first)
    assert (await talking.next())["item_id"] == first
    await talking.say("He was old.")
    await talking.reply()
    prompt = asked(script, "dialogue")[-1].messages
    assert not any("Ann" in message.content for message in prompt)


async def test_a_spoken_reply(talking: Talk) -> None:
    await talking.say()
    response = await talking.reply()
    content = {"type": "output_audio", "transcript": REPLY}
    assert response["output"][0]["content"] == [content]
    # The scripted voice takes 1,000 samples a character; each piece fills whole frames.
    spoken = len(talking.sound) / 2
    assert 1_000 * (len(REPLY) - 3) <= spoken <= 1_000 * len(REPLY) + 3 * 960
    done = talking.of("response.output_audio_transcript.done")[0]
    assert done["transcript"] == REPLY
    await talking.send("conversation.item.retrieve", item_id=response["output"][0]["id"])
    assert (await talking.next())["item"]["content"] == [content]


async def test_a_filmed_reply_is_one_file_with_sound(talking: Talk, tmp_path: Path) -> None:
    updated = await talking.configure(e3rg={"video": True, "identity": "mei"})
    assert updated["session"]["e3rg"]["video"] is True
    await talking.say()
    await talking.reply()
    deltas = talking.of("response.e3rg.video.delta")
    (tmp_path / "reply.mp4").write_bytes(b"".join(base64.b64decode(e["delta"]) for e in deltas))
    with av.open(str(tmp_path / "reply.mp4")) as file:
        frames = sum(1 for _ in file.decode(video=0))
    with av.open(str(tmp_path / "reply.mp4")) as file:
        heard = sum(frame.samples for frame in file.decode(audio=0)) / 24_000
    assert frames == sum(event["frames"] for event in deltas) > 50
    assert heard == pytest.approx(frames / 25, abs=0.1)
    assert len(talking.sound) / 48_000 == pytest.approx(frames / 25, abs=0.05)
    assert deltas[0]["mime"].startswith("video/mp4; codecs=")
    assert talking.names.index("response.e3rg.video.done") < talking.names.index("response.done")


async def test_a_committed_voice_is_transcribed_by_its_turn(talking: Talk, script: Script) -> None:
    await talking.configure(audio=MANUAL)
    await talking.send("e3rg.input_image.append", image=PICTURE)
    await talking.append(babble(1.0))
    await talking.send("input_audio_buffer.commit")
    item = (await talking.until("conversation.item.done"))["item"]
    await talking.reply()
    heard = talking.of("conversation.item.input_audio_transcription.completed")[0]
    assert (heard["item_id"], heard["transcript"]) == (item["id"], script.transcript)
    seen: Utterance = asked(script, "understanding")[0]
    assert seen.audio is not None and seen.frames == (JPEG,)
    # Told to be 24 kHz, what was made at 16 kHz is two thirds as long.
    assert seen.audio.sample_rate == 16_000
    assert seen.audio.seconds == pytest.approx(2 / 3, abs=0.01)
    await talking.send("conversation.item.retrieve", item_id=item["id"])
    assert (await talking.next())["item"]["content"][0]["transcript"] == script.transcript
    await talking.say("And my cat.")
    await talking.reply()
    assert asked(script, "understanding")[-1].frames == ()


@pytest.mark.parametrize("audio_format", ["audio/pcmu", "audio/pcma"])
async def test_telephone_sound_both_ways(talking: Talk, script: Script, audio_format: str) -> None:
    telephone = {"format": {"type": audio_format}}
    updated = await talking.configure(
        audio={"input": {**telephone, "turn_detection": None}, "output": telephone}
    )
    assert updated["session"]["audio"]["output"]["format"] == {"type": audio_format}
    data = encode(silence(2, 8_000).data, audio_format)  # type: ignore[arg-type]
    await talking.send("input_audio_buffer.append", audio=base64.b64encode(data).decode())
    await talking.send("input_audio_buffer.commit")
    await talking.reply()
    assert asked(script, "understanding")[0].audio.seconds == pytest.approx(2, abs=0.01)
    # One byte a sample at a third of the rate.
    assert len(talking.sound) == pytest.approx(1_000 * len(REPLY) / 3, rel=0.05)


async def test_text_beside_a_voice_and_words_to_the_side(talking: Talk, script: Script) -> None:
    await talking.configure(output_modalities=["text"], audio=MANUAL)
    await talking.append(babble(1.0))
    await talking.send("input_audio_buffer.commit")
    await talking.until("conversation.item.input_audio_transcription.completed")
    told = {"type": "input_text", "text": "Speak as a pirate."}
    await talking.send(
        "conversation.item.create", item={"type": "message", "role": "system", "content": [told]}
    )
    await talking.say("He was old.")
    await talking.reply()
    prompt = asked(script, "dialogue")[-1].messages
    assert prompt[-1].content.endswith("I lost my dog. He was old.")
    assert "pirate" in prompt[0].content
    aside = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Sum."}]}
    added = len(talking.of("conversation.item.added"))
    side = await talking.reply(conversation="none", input=[aside], instructions="Add.")
    assert side["conversation_id"] is None
    assert len(talking.of("conversation.item.added")) == added
    prompt = asked(script, "dialogue")[-1].messages
    assert prompt[-1].content.endswith("Sum.") and "Add." in prompt[0].content


async def test_a_greeting_needs_no_input(talking: Talk, script: Script) -> None:
    response = await talking.reply(output_modalities=["text"], instructions="Greet the user.")
    assert response["status"] == "completed"
    assert "Greet the user." in asked(script, "dialogue")[0].messages[0].content


async def test_settings_are_checked_and_told(talking: Talk, script: Script) -> None:
    vad = {"type": "semantic_vad", "eagerness": "low"}
    updated = await talking.configure(
        audio={"input": {"turn_detection": vad}, "output": {"voice": "af_heart"}},
        max_output_tokens=7,
        tools=[],
        tool_choice="auto",
        e3rg={"policy": "mirror", "user": "ann", "conversation": "talk-1", "degrade": "never"},
    )
    session = updated["session"]
    assert session["audio"]["input"]["turn_detection"]["eagerness"] == "low"
    assert session["audio"]["output"]["voice"] == "af_heart"
    assert session["e3rg"]["conversation"] == "talk-1"
    await talking.say()
    await talking.reply(output_modalities=["text"])
    assert asked(script, "dialogue")[0].max_tokens == 7
    assert asked(script, "memory")[0].user == "ann"


async def test_the_voice_speaks_as_fast_as_the_session_says(talking: Talk, script: Script) -> None:
    await talking.configure(audio={"output": {"speed": 1.25}})
    await talking.reply()
    assert {request.speed for request in asked(script, "speech")} == {1.25}


async def test_settings_that_cannot_be_had(talking: Talk) -> None:
    faults: list[tuple[dict[str, Any], str | None, str]] = [
        ({"colour": 1}, "session.colour", "unknown_field"),
        ({"instructions": 5}, "session.instructions", "invalid_type"),
        ({"tools": [{"type": "function", "name": "f"}]}, "session.tools", "unsupported_parameter"),
        ({"audio": {"output": {"voice": "nobody"}}}, None, "unknown_voice"),
        ({"audio": {"output": {"speed": 1.7}}}, None, "invalid_type"),
        ({"audio": {"input": {"format": {"type": "audio/mp3"}}}}, None, "invalid_type"),
        ({"modalities": ["text"]}, "session.modalities", "beta_api_shape_disabled"),
        ({"output_modalities": ["text", "audio"]}, None, "invalid_type"),
        ({"model": "whisper-1"}, "model", "model_not_supported"),
        ({"e3rg": {"identity": "nobody"}}, None, "unknown_identity"),
        ({"type": "transcription"}, "session.type", "unsupported_parameter"),
    ]
    for session, param, code in faults:
        session = {"type": "realtime", **session}
        await talking.send("session.update", event_id="mine", session=session)
        error = (await talking.next())["error"]
        assert (error["code"], error["event_id"]) == (code, "mine"), error
        assert param in (None, error["param"])
    # Nothing has changed.
    updated = await talking.configure()
    assert updated["session"] == talking.seen[0]["session"]


async def test_order_matters_and_is_told(talking: Talk, script: Script) -> None:
    await talking.configure(output_modalities=["text"], audio=MANUAL)
    script.hold["dialogue"] = asyncio.Event()
    await talking.say()
    await talking.send("response.create")
    await talking.until("response.created")
    for name, fields, code in (
        ("response.create", {}, "conversation_already_has_active_response"),
        ("input_audio_buffer.commit", {}, "input_audio_buffer_commit_empty"),
        ("conversation.item.delete", {"item_id": "nobody"}, "item_not_found"),
        ("conversation.item.truncate", {"item_id": 5, "audio_end_ms": 1}, "item_not_found"),
        ("response.cancel", {"response_id": "other"}, "response_cancel_not_active"),
        ("input_audio_buffer.append", {"audio": "%%%"}, "invalid_value"),
        ("conversation.item.create", {"item": {"type": "function_call"}}, "unsupported_parameter"),
        ("no.such.event", {}, "unknown_event_type"),
    ):
        await talking.send(name, event_id=f"of {name}", **fields)
        error = (await talking.until("error"))["error"]
        assert (error["code"], error["event_id"]) == (code, f"of {name}")
    script.hold["dialogue"].set()
    assert (await talking.until("response.done"))["response"]["status"] == "completed"
    await talking.send("response.cancel")
    assert (await talking.next())["error"]["code"] == "response_cancel_not_active"


async def test_a_failed_turn_is_a_failed_response(talking: Talk, script: Script) -> None:
    script.fail["dialogue"] = E3RGError("dialogue_busy", "come again", status=503)
    await talking.say()
    failed = await talking.reply()
    error = {"type": "server_error", "code": "dialogue_busy", "message": "come again"}
    assert failed["status_details"] == {"type": "failed", "error": error}
    script.fail.clear()
    assert (await talking.reply())["status"] == "completed"


async def test_no_place_for_a_turn_fails_the_response(address: str, script: Script) -> None:
    script.hold["dialogue"] = asyncio.Event()
    async with talk(address) as one, talk(address) as two, talk(address) as three:
        for each in (one, two):
            await each.say()
            await each.send("response.create")
            await each.until("response.created")
        await asyncio.sleep(0.1)
        await three.say()
        assert (await three.reply())["status_details"]["error"]["code"] == "overloaded"
        script.hold["dialogue"].set()
        for each in (one, two):
            assert (await each.until("response.done"))["response"]["status"] == "completed"
        assert (await three.reply())["status"] == "completed"


async def test_a_recorded_conversation_is_taken_up(address: str, script: Script) -> None:
    about = {"output_modalities": ["text"], "e3rg": {"conversation": "old", "user": "ann"}}
    async with talk(address) as talking:
        await talking.configure(**about)
        await talking.say("My cat is ill.")
        await talking.reply()
    async with talk(address, "e3rg-mei") as talking:
        assert talking.seen[0]["session"]["model"] == "e3rg-mei"
        refused = (await talking.configure(e3rg={"identity": "henry"}))["error"]
        assert (refused["code"], refused["param"]) == (
            "identity_conflict",
            "session.e3rg.identity",
        )
        await talking.configure(**about)
        await talking.say("She is better.")
        await talking.reply()
    lines = [message.content for message in asked(script, "dialogue")[-1].messages]
    assert "My cat is ill." in lines


def test_sound_survives_the_formats() -> None:
    sound = babble(1.0)
    for name in ("audio/pcmu", "audio/pcma"):
        back = decode(encode(sound.data, name), name)
        one, two = (np.frombuffer(data, np.int16).astype(float) for data in (sound.data, back.data))
        error = 10 * np.log10((one**2).mean() / ((one - two) ** 2).mean())
        assert error > 35, f"{name}: {error:.1f} dB"  # G.711 gives about 38 dB


def test_a_resampled_stream_has_no_seams() -> None:
    time = np.arange(48_000) / 48_000
    tone = (10_000 * np.sin(2 * np.pi * 440 * time)).astype(np.int16).tobytes()
    resampler = Resampler(16_000)
    pieces = [tone[at : at + 1_920] for at in range(0, len(tone), 1_920)]
    joined = b"".join(resampler.feed(Pcm(piece, 48_000)) for piece in pieces) + resampler.flush()
    samples = np.frombuffer(joined, np.int16).astype(float)
    assert samples.size == pytest.approx(16_000, abs=40)
    expected = 10_000 * np.sin(2 * np.pi * 440 * np.arange(samples.size) / 16_000)
    assert np.abs(samples - expected)[100:-100].max() < 150
