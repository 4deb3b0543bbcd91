import asyncio
import time
from typing import Any

import pytest
from scripted import REPLY, Script, turn_request

from e3rg.emotions.types import Category
from e3rg.errors import E3RGError
from e3rg.media.types import Pcm
from e3rg.stages.dialogue.engine import DialogueRequest
from e3rg.stages.memory.engine import MemoryQuery
from e3rg.stages.speech.engine import SpeechRequest
from e3rg.turn import events
from e3rg.turn.conductor import Turn
from e3rg.turn.request import Modality

GONE = E3RGError("stage_unavailable", "gone", status=503)


async def run(script: Script, **changes: object) -> tuple[Turn, list[Any]]:
    turn = Turn(script.stages(), turn_request(**changes))
    seen = [event async for event in turn.events()]
    await turn.closed()
    assert script.idle
    return turn, seen


def kinds(seen: list[Any]) -> list[str]:
    names = [type(event).__name__ for event in seen]
    return [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]


def of(seen: list[Any], kind: type) -> list[Any]:
    return [event for event in seen if isinstance(event, kind)]


async def test_a_turn_tells_everything_in_order() -> None:
    turn, seen = await run(Script())
    assert kinds(seen)[:5] == [
        "TurnCreated",
        "EmotionRecognized",
        "MemoryUsed",
        "TextDelta",
        "AudioChunk",
    ]
    assert kinds(seen)[-2:] == ["UsageReported", "TurnCompleted"]
    assert "".join(delta.text for delta in of(seen, events.TextDelta)) == REPLY
    assert seen[-1].text == REPLY
    assert turn.state.status == "completed"
    order = ["emotion", "memory", "first_token", "first_audio", "first_frame", "total"]
    assert list(seen[-1].timings) == order
    assert sorted(seen[-1].timings.values()) == list(seen[-1].timings.values())


async def test_video_is_exactly_as_long_as_its_sound() -> None:
    _, seen = await run(Script())
    audio = of(seen, events.AudioChunk)
    video = of(seen, events.VideoFrames)
    assert b"".join(c.audio.data for c in audio) == b"".join(v.audio.data for v in video)
    frame = 0
    for part in video:
        assert part.first_frame == frame
        assert part.audio.samples == 960 * len(part.packets)
        frame += len(part.packets)
    usage = of(seen, events.UsageReported)[0].usage
    assert usage.video_frames == frame
    assert usage.audio_seconds_out == pytest.approx(frame / 25)
    assert (usage.prompt_tokens, usage.completion_tokens) == (50, len(REPLY.split()))


async def test_speech_starts_before_the_reply_is_written() -> None:
    """The first sound leaves while the model still holds the last words back."""
    script = Script(reply="First. " + "More words follow here. " * 40)
    _, seen = await run(script)
    names = [type(event).__name__ for event in seen]
    assert names.index("AudioChunk") < len(names) - 1 - names[::-1].index("TextDelta")
    assert names.index("VideoFrames") < len(names) - 1 - names[::-1].index("TextDelta")


async def test_at_most_two_sentences_are_in_flight_in_a_stage() -> None:
    script = Script(reply="A sentence like any other one. " * 30)
    script.hold["avatar"] = asyncio.Event()
    turn = Turn(script.stages(), turn_request())
    stream = turn.events()
    seen = [await anext(stream) for _ in range(5)]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            while True:
                seen.append(await anext(stream))
    spoken = sum(1 for stage, _ in script.calls if stage == "speech")
    assert spoken <= 4  # in the avatar, waiting for it, and one that waits to be put there
    await stream.aclose()
    await turn.closed()
    assert script.idle


@pytest.mark.parametrize("after", [1, 3, 5, 8, 14, 20])
async def test_leaving_stops_every_stage(after: int) -> None:
    before = asyncio.all_tasks()
    script = Script(reply="Some words that go on and on. " * 20)
    turn = Turn(script.stages(), turn_request())
    stream = turn.events()
    for _ in range(after):
        await anext(stream)
    await stream.aclose()
    await turn.closed()
    assert script.idle
    assert turn.state.status == "cancelled"
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("stage", ["understanding", "memory", "dialogue", "speech", "avatar"])
async def test_the_deadline_ends_a_turn_that_hangs(stage: str) -> None:
    script = Script()
    script.hold[stage] = asyncio.Event()
    _, seen = await run(script, deadline=time.time() + 0.2)
    assert isinstance(seen[-1], events.TurnFailed)
    assert (seen[-1].error.code, seen[-1].error.status) == ("deadline_exceeded", 504)


async def test_without_video_the_still_is_held_and_said() -> None:
    script = Script(fail={"avatar": GONE}, fail_after=2)
    turn, seen = await run(script)
    degraded = of(seen, events.Degraded)
    assert [(d.wanted, d.given, d.code) for d in degraded] == [
        ("video", "still", "stage_unavailable")
    ]
    shown = of(seen, events.VideoFrames)
    assert b"".join(e.audio.data for e in shown) == b"".join(
        c.audio.data for c in of(seen, events.AudioChunk)
    )
    assert turn.state.status == "completed"


async def test_without_still_sound_goes_on() -> None:
    _, seen = await run(Script(fail={"avatar": GONE, "still": GONE}))
    assert [(d.wanted, d.given) for d in of(seen, events.Degraded)] == [("video", "audio")]
    assert "".join(c.text for c in of(seen, events.AudioChunk)).replace(" ", "") == REPLY.replace(
        " ", ""
    )
    assert isinstance(seen[-1], events.TurnCompleted)


async def test_without_speech_text_goes_on() -> None:
    _, seen = await run(Script(fail={"speech": GONE}))
    assert [(d.wanted, d.given) for d in of(seen, events.Degraded)] == [("audio", "text")]
    assert seen[-1].text == REPLY


async def test_without_understanding_and_memory_it_still_answers() -> None:
    _, seen = await run(Script(fail={"understanding": GONE, "memory": GONE}))
    assert [d.wanted for d in of(seen, events.Degraded)] == ["emotion", "memory"]
    emotion = of(seen, events.EmotionRecognized)[0].emotion
    assert (emotion.category, emotion.confidence) == (Category.NEUTRAL, 0.0)


@pytest.mark.parametrize("stage", ["understanding", "memory", "speech", "avatar", "dialogue"])
async def test_a_client_may_refuse_less(stage: str) -> None:
    _, seen = await run(Script(fail={stage: GONE}), may_degrade=False)
    assert isinstance(seen[-1], events.TurnFailed)
    assert seen[-1].error.code == "stage_unavailable"


async def test_an_unknown_fault_shows_nothing_of_the_inside() -> None:
    script = Script()
    script.fail["dialogue"] = ValueError("/secret/path")  # type: ignore[assignment]
    _, seen = await run(script)
    assert seen[-1].error.code == "dialogue_failed"
    assert "secret" not in seen[-1].error.message


async def test_silence_is_an_error_that_names_the_audio() -> None:
    _, seen = await run(Script(transcript=" "), text=None, audio=Pcm(bytes(32_000), 16_000))
    assert (seen[-1].error.code, seen[-1].error.param) == ("no_speech", "audio")


async def test_speech_is_heard_first() -> None:
    _, seen = await run(Script(), text=None, audio=Pcm(bytes(32_000), 16_000))
    assert kinds(seen)[1] == "TranscriptReady"
    assert of(seen, events.UsageReported)[0].usage.audio_seconds_in == 1.0


async def test_memory_is_asked_for_this_user_and_told_the_turn() -> None:
    script = Script()
    await run(script, user="ann")
    query = next(what for stage, what in script.calls if stage == "memory")
    assert isinstance(query, MemoryQuery)
    assert (query.user, query.conversation) == ("ann", "conv_1")
    assert [(e.user, e.reply, e.emotion) for e in script.episodes] == [("ann", REPLY, "devastated")]


async def test_nothing_is_remembered_of_a_stranger() -> None:
    script = Script()
    await run(script)
    assert script.episodes == []


@pytest.mark.parametrize(
    ("modality", "absent"),
    [
        (Modality.TEXT, (events.AudioChunk, events.VideoFrames)),
        (Modality.AUDIO, (events.VideoFrames,)),
    ],
)
async def test_only_what_was_asked_for(modality: Modality, absent: tuple[type, ...]) -> None:
    _, seen = await run(Script(), reply_with=modality)
    assert not [event for event in seen if isinstance(event, absent)]
    assert seen[-1].text == REPLY


async def test_turns_do_not_share_anything() -> None:
    script = Script()
    stages = script.stages()
    turns = [
        Turn(stages, turn_request(id=f"turn_{n}", text=f"Number {n}.", user=f"user {n}"))
        for n in range(20)
    ]

    async def collect(turn: Turn) -> list[Any]:
        return [event async for event in turn.events()]

    results = await asyncio.gather(*(collect(turn) for turn in turns))
    for number, (turn, seen) in enumerate(zip(turns, results, strict=True)):
        assert seen[0].turn == f"turn_{number}"
        assert turn.state.text == f"Number {number}."
        assert seen[-1].text == REPLY
    told = sorted((episode.user, episode.text) for episode in script.episodes)
    assert told == sorted((f"user {n}", f"Number {n}.") for n in range(20))
    assert script.idle


async def test_a_reply_ends_after_whole_sentences_and_what_was_made_is_counted() -> None:
    script = Script(reply="One is here. Two is here. Three is here. Four is never heard.")
    turn, seen = await run(script, max_sentences=3)
    assert seen[-1].text == "One is here. Two is here. Three is here."
    assert seen[-1].finish_reason == "stop"
    spoken = " ".join(chunk.text for chunk in of(seen, events.AudioChunk))
    assert spoken == seen[-1].text
    assert turn.state.usage.completion_tokens == 10  # the word that showed the end is paid for


@pytest.mark.parametrize(
    ("stage", "limit", "wanted"),
    [
        ("understanding", "conductor._RECOGNIZE_S", "emotion"),
        ("memory", "conductor.MEMORY_S", "memory"),
        ("speech", "reply._SPEAK_S", "audio"),
        ("avatar", "film._RENDER_S", "video"),
    ],
)
async def test_a_stage_that_hangs_costs_its_part_only(
    stage: str, limit: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"e3rg.turn.{limit}", 0.1)
    script = Script()
    script.hold[stage] = asyncio.Event()
    _, seen = await run(script)
    assert [(d.wanted, d.code) for d in of(seen, events.Degraded)] == [(wanted, f"{stage}_timeout")]
    assert seen[-1].text == REPLY


async def test_the_deadline_ends_a_turn_whose_reader_has_stopped_reading() -> None:
    script = Script(reply="Some words that go on and on. " * 40)
    turn = Turn(script.stages(), turn_request(deadline=time.time() + 0.3, max_sentences=100))
    stream = turn.events()
    await anext(stream)
    async with asyncio.timeout(5):
        await turn.closed()
    assert script.idle
    assert turn.state.status == "failed"
    rest = [event async for event in stream]
    assert rest[-1].error.code == "deadline_exceeded"


async def test_what_the_application_asks_reaches_the_model_and_the_voice() -> None:
    script = Script()
    await run(
        script,
        instructions="Mention the sea.",
        stop=("END",),
        top_p=0.5,
        presence_penalty=1.5,
        temperature=1.1,
        speed=1.25,
        reply_with=Modality.AUDIO,
    )
    asked = next(what for stage, what in script.calls if stage == "dialogue")
    assert isinstance(asked, DialogueRequest)
    assert "Mention the sea." in asked.messages[0].content
    assert (asked.stop, asked.top_p, asked.presence_penalty) == (("END",), 0.5, 1.5)
    # What is not asked stays the engine's own.
    assert asked.frequency_penalty == DialogueRequest(()).frequency_penalty
    said = next(what for stage, what in script.calls if stage == "speech")
    assert isinstance(said, SpeechRequest)
    assert said.speed == 1.25
