"""Pipelined turns against the same engines run one after another, as E3RG's scripts run them.

Both sides run in this process on the same loaded engines with the same prompts and seeds. Run::

    python benchmarks/pipeline.py [--profile local] [--json OUT]

E3RG's way is: understand, retrieve, write the whole reply, speak all of it, render all of it; the
first sound exists when all is spoken, the first picture when all is rendered and written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from e3rg.config import data_dir, load_profile
from e3rg.emotions.table import listener_delivery
from e3rg.emotions.types import Delivery
from e3rg.identities.store import IdentityStore
from e3rg.inprocess import local_stages
from e3rg.media.mux import write_mp4
from e3rg.media.types import Pcm, VideoPacket
from e3rg.stages.avatar.engine import FPS, RenderRequest
from e3rg.stages.dialogue.engine import DialogueRequest
from e3rg.stages.memory.engine import MemoryQuery
from e3rg.stages.speech.engine import SpeechRequest
from e3rg.stages.understanding.engine import Utterance
from e3rg.turn.clock import MediaClock
from e3rg.turn.conductor import Turn
from e3rg.turn.prompt import build_prompt
from e3rg.turn.request import TurnRequest
from e3rg.turn.sentences import SentenceLimit, SentenceSplitter
from e3rg.turn.state import Stages

PROMPTS = (
    "I lost my dog yesterday. He was with me for fourteen years.",
    "I got the job I had been dreaming of since school!",
    "My best friend forgot my birthday and I feel left out.",
    "I have to speak in front of two hundred people tomorrow.",
    "My neighbour brought me soup every day while I was ill.",
    "Somebody broke into our flat while we slept.",
)
MIN_SENTENCES, MAX_SENTENCES = 3, 8


@dataclass
class Result:
    """Seconds from the start of a turn."""

    reply: str
    first_audio: float
    first_video: float
    total: float
    audio_seconds: float


async def pipelined(stages: Stages, request: TurnRequest) -> Result:
    turn = Turn(stages, request)
    async with aclosing(turn.events()) as events:
        async for _ in events:
            pass
    timings = turn.state.timings
    return Result(
        turn.state.reply,
        timings["first_audio"],
        timings["first_frame"],
        timings["total"],
        turn.state.usage.audio_seconds_out,
    )


async def write(stages: Stages, request: TurnRequest) -> tuple[str, Delivery]:
    """Understand, retrieve, and generate the whole reply."""
    assert request.text is not None
    emotion = await stages.understanding.recognize(Utterance(request.text))
    delivery = listener_delivery(emotion, request.policy)
    retrieval = await stages.memory.retrieve(MemoryQuery(request.text, emotion=emotion))
    prompt = build_prompt(request.identity, request.text, emotion, retrieval)
    query = DialogueRequest(prompt, max_tokens=request.max_tokens, seed=request.reply_seed)
    limit = SentenceLimit(request.max_sentences)  # as the pipelined side: the same reply
    reply = ""
    async with aclosing(stages.dialogue.stream(query)) as deltas:
        async for delta in deltas:
            kept, ended = limit.feed(delta.text)
            reply += kept
            if ended:
                break
    return reply, delivery


async def sequential(stages: Stages, request: TurnRequest) -> Result:
    start = time.monotonic()
    reply, delivery = await write(stages, request)
    splitter = SentenceSplitter(first_clause_chars=0)
    clock: MediaClock | None = None
    spoken = []
    for sentence in splitter.feed(reply) + splitter.finish():
        segment = await stages.speech.synthesize(
            SpeechRequest(sentence, request.identity.voice, delivery)
        )
        if not segment.audio.samples:
            continue
        clock = clock or MediaClock(segment.audio.sample_rate, FPS)
        audio, first = clock.place(segment.audio)
        spoken.append((audio, first, segment.phonemes))
    first_audio = time.monotonic() - start
    packets: list[VideoPacket] = []
    for audio, first, phonemes in spoken:
        frame = first * FPS // audio.sample_rate
        render = RenderRequest(
            request.identity.portrait, audio, phonemes, frame, delivery, None, request.seed
        )
        async for chunk in stages.avatar.render(render):
            packets += chunk.packets
    sound = Pcm(b"".join(audio.data for audio, _, _ in spoken), spoken[0][0].sample_rate)
    with TemporaryDirectory() as folder:
        write_mp4(packets, sound, Path(folder) / "reply.mp4")
    total = time.monotonic() - start
    return Result(reply, first_audio, total, total, sound.seconds)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--profile", default="local")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    profile = load_profile(options.profile)
    identity = IdentityStore(data_dir() / "identities").default()
    rows = []
    async with local_stages(profile) as stages:

        def request(text: str, seed: int) -> TurnRequest:
            return TurnRequest(
                id=f"bench_{seed}",
                conversation="bench",
                identity=identity,
                deadline=time.time() + 600,
                text=text,
                seed=seed,
                reply_seed=seed,
                max_tokens=profile.turn.max_reply_tokens,
                max_sentences=MAX_SENTENCES,
            )

        await pipelined(stages, request("Hello.", 0))  # both sides find everything warm
        for number, text in enumerate(PROMPTS):
            for seed in range(100 * number + 1, 100 * number + 20):
                reply, _ = await write(stages, request(text, seed))
                sentences = SentenceSplitter(first_clause_chars=0)
                if len(sentences.feed(reply) + sentences.finish()) >= MIN_SENTENCES:
                    break
            slow = await sequential(stages, request(text, seed))
            fast = await pipelined(stages, request(text, seed))
            assert fast.reply == slow.reply, "both sides must answer the same"
            rows.append((text, slow, fast))
    report(rows, options.json)


def report(rows: list[tuple[str, Result, Result]], output: Path | None) -> None:
    table = Table("prompt", "reply s", "audio: seq", "pipe", "ratio", "video: seq", "pipe", "ratio")
    audio, video = [], []
    for text, slow, fast in rows:
        audio.append(slow.first_audio / fast.first_audio)
        video.append(slow.first_video / fast.first_video)
        table.add_row(
            text[:28],
            f"{fast.audio_seconds:.1f}",
            f"{slow.first_audio:.2f}",
            f"{fast.first_audio:.2f}",
            f"{audio[-1]:.1f}",
            f"{slow.first_video:.2f}",
            f"{fast.first_video:.2f}",
            f"{video[-1]:.1f}",
        )
    summary = {
        "first_audio_ratio_median": statistics.median(audio),
        "first_video_ratio_median": statistics.median(video),
        "first_audio_ratio_min": min(audio),
        "first_video_ratio_min": min(video),
        "whole_turn_ratio_median": statistics.median(s.total / f.total for _, s, f in rows),
        "real_time_factor_median": statistics.median(f.total / f.audio_seconds for _, _, f in rows),
    }
    console = Console()
    console.print(table)
    for name, value in summary.items():
        console.print(f"{name}: {value:.2f}")
    if output is not None:
        output.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
