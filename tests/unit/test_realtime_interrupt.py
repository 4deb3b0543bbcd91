"""Interruptions: the reply stops in every stage, and only what was heard is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from realtime_kit import Talk, at_rate, silence, talk
from scripted import REPLY, Script
from test_vad import speech  # noqa: F401

from e3rg.config import load_profile
from e3rg.gateway.realtime.items import Spoken
from e3rg.inprocess import served
from e3rg.media.types import Pcm
from e3rg.stages.dialogue.engine import DialogueRequest

LONG = " ".join(f"Sentence number {n} goes on for a while." for n in range(1, 9))


@pytest.fixture
def script() -> Script:
    return Script(reply=LONG)


@pytest.fixture
async def address(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    profile = load_profile("local")
    turn = profile.turn.model_copy(update={"max_reply_sentences": 8})
    profile = profile.model_copy(update={"turn": turn})
    async with served(profile, script.stages()) as address:
        yield address


async def record(address: str, talking: Talk) -> dict[str, Any]:
    """The newest turn as recorded, once it is."""
    turn = talking.of("response.e3rg.timings")[-1]["turn"]
    async with httpx.AsyncClient() as client:
        return dict((await client.get(f"{address}/v1/turns/{turn}")).json())


def newest_prompt(script: Script) -> DialogueRequest:
    prompt = [what for name, what in script.calls if name == "dialogue"][-1]
    assert isinstance(prompt, DialogueRequest)
    return prompt


async def until_idle(script: Script) -> None:
    await script.until_idle()


async def stop_in_speech(talking: Talk, script: Script) -> None:
    """Let a reply speak two pieces and hang in the third."""
    script.hold["speech"] = asyncio.Event()
    await talking.say()
    await talking.send("response.create")
    await talking.until("response.content_part.added")
    script.hold["speech"].set()
    await talking.until("response.output_audio.delta")
    script.hold["speech"] = asyncio.Event()


async def test_a_cancelled_reply_stops_everywhere(talking: Talk, script: Script) -> None:
    await stop_in_speech(talking, script)
    await talking.send("response.cancel")
    done = (await talking.until("response.done"))["response"]
    assert done["status"] == "cancelled"
    assert done["status_details"]["reason"] == "client_cancelled"
    truncated = await talking.until("conversation.item.truncated")
    item = done["output"][0]
    assert (truncated["item_id"], item["status"]) == (item["id"], "incomplete")
    assert len(item["content"][0]["transcript"]) < len(LONG) / 2
    await until_idle(script)
    assert "response.output_audio.delta" not in talking.names[-8:]
    script.hold.clear()
    assert (await talking.reply())["status"] == "completed"


async def test_the_next_turn_knows_only_what_was_heard(talking: Talk, script: Script) -> None:
    await stop_in_speech(talking, script)
    await asyncio.sleep(1.0)  # two words are heard meanwhile
    await talking.send("response.cancel")
    done = (await talking.until("response.done"))["response"]
    await talking.until("conversation.item.truncated")
    heard = done["output"][0]["content"][0]["transcript"]
    assert heard and LONG.startswith(heard) and len(heard) < 30
    script.hold.clear()
    await talking.say("Go on.")
    await talking.reply()
    prompt = newest_prompt(script)
    assert prompt.messages[-2].content == heard


async def test_a_reply_that_is_still_played_is_cut_too(
    talking: Talk, script: Script, address: str
) -> None:
    await talking.configure(e3rg={"user": "ann", "conversation": "c1"})
    await talking.say()
    done = await talking.reply()
    assert done["status"] == "completed" and len(talking.sound) > 48_000 * 5
    await talking.send("output_audio_buffer.clear")
    truncated = await talking.until("conversation.item.truncated")
    assert truncated["audio_end_ms"] < 5_000
    await talking.send("conversation.item.retrieve", item_id=truncated["item_id"])
    kept = (await talking.next())["item"]["content"][0]["transcript"]
    assert LONG.startswith(kept) and len(kept) < len(LONG) / 2
    async with asyncio.timeout(10):
        while (await record(address, talking))["text"] != kept:
            await asyncio.sleep(0.02)
    # The client knows best what was heard; more than was sent it cannot be.
    item = truncated["item_id"]
    await talking.send(
        "conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=1_850
    )
    assert (await talking.next())["audio_end_ms"] == 1_850
    async with asyncio.timeout(10):
        while (await record(address, talking))[
            "text"
        ] != "Sentence number 1 goes on for a while. Sentence":
            await asyncio.sleep(0.02)
    async with asyncio.timeout(10):
        while script.episodes[-1].reply != "Sentence number 1 goes on for a while. Sentence":
            await asyncio.sleep(0.02)
    await talking.send(
        "conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=3_000_000
    )
    assert (await talking.next())["error"]["param"] == "audio_end_ms"
    # Of a reply that nobody heard, memory keeps what the person said and no word of the answer.
    await talking.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=0)
    async with asyncio.timeout(10):
        while script.episodes[-1].reply != "":
            await asyncio.sleep(0.02)
    assert script.episodes[-1].text == "I lost my dog."


async def test_speech_interrupts(
    talking: Talk,
    script: Script,
    speech: bytes,  # noqa: F811
) -> None:
    await stop_in_speech(talking, script)
    heard = at_rate(Pcm(speech[: 2 * 16_000 * 2], 16_000))
    await talking.append(heard)
    started = await talking.until("input_audio_buffer.speech_started")
    done = (await talking.until("response.done"))["response"]
    assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    await talking.until("conversation.item.truncated")
    await until_idle(script)
    assert (
        "response.output_audio.delta" not in talking.names[talking.names.index(started["type"]) :]
    )
    script.hold.clear()
    await talking.append(silence(1.0))
    stopped = await talking.until("input_audio_buffer.speech_stopped")
    assert stopped["item_id"] == started["item_id"]
    committed = await talking.until("input_audio_buffer.committed")
    assert committed["item_id"] == started["item_id"]
    words = await talking.until("conversation.item.input_audio_transcription.completed")
    assert words["item_id"] == started["item_id"]
    assert (await talking.until("response.done"))["response"]["status"] == "completed"


async def test_speech_does_what_the_client_chose(
    talking: Talk,
    script: Script,
    speech: bytes,  # noqa: F811
) -> None:
    vad = {"type": "server_vad", "create_response": False, "interrupt_response": False}
    await talking.configure(audio={"input": {"turn_detection": vad}})
    await stop_in_speech(talking, script)
    await talking.append(at_rate(Pcm(speech[: 2 * 16_000 * 2], 16_000)))
    await talking.append(silence(1.0))
    await talking.until("input_audio_buffer.speech_stopped")
    await talking.until("conversation.item.input_audio_transcription.completed")
    script.hold["speech"].set()
    assert (await talking.until("response.done"))["response"]["status"] == "completed"
    assert len(talking.of("response.created")) == 1


async def test_somebody_silent_is_spoken_to_once(address: str, script: Script) -> None:
    script.reply = "Yes."
    vad = {"type": "server_vad", "idle_timeout_ms": 5_000}
    async with talk(address) as talking:
        await talking.configure(
            output_modalities=["text"], audio={"input": {"turn_detection": vad}}
        )
        await talking.say()
        await talking.reply()
        await talking.until("input_audio_buffer.timeout_triggered")
        assert (await talking.until("response.done"))["response"]["status"] == "completed"


async def test_a_client_that_leaves_stops_all(address: str, script: Script) -> None:
    async with talk(address) as talking:
        await talking.configure(e3rg={"conversation": "left"})
        await stop_in_speech(talking, script)
        talking.connection._connection.transport.abort()
    await until_idle(script)
    async with talk(address) as talking:
        script.hold.clear()
        await talking.configure(output_modalities=["text"], e3rg={"conversation": "left"})
        await talking.say("Go on.")
        await talking.reply()
    prompt = newest_prompt(script)
    assert len(prompt.messages[-2].content) < len(LONG) / 2


async def test_cancelled_before_it_began(talking: Talk) -> None:
    await talking.say()
    for _ in range(20):
        await talking.send("response.create")
        await talking.send("response.cancel")
        done = (await talking.until("response.done"))["response"]
        assert done["status"] == "cancelled"
        await asyncio.sleep(np.random.default_rng().random() * 0.02)


@pytest.fixture
async def talking(address: str) -> AsyncIterator[Talk]:
    async with talk(address) as talking:
        yield talking


def test_words_are_heard_in_time() -> None:
    spoken = Spoken()
    spoken.add("I am so sorry.", 2.0)
    spoken.add(" He was a friend to you.", 3.0)
    assert spoken.until(0.0) == ""
    assert spoken.until(1.0) == "I am"
    assert spoken.until(2.0) == "I am so sorry."
    assert spoken.until(3.5) == "I am so sorry. He was a"
    assert spoken.until(9.0) == "I am so sorry. He was a friend to you."
    assert REPLY.startswith(spoken.until(2.5))
