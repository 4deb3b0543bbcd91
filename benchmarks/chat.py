"""Overhead of /v1/chat/completions against the OpenAI server of the very engine behind it.

One real system (`e3rg up`) runs; its dialogue replica holds llama.cpp, whose own HTTP server
listens on the loopback interface. The official client asks both for replies to prompts of about 200
tokens, greedily, by turns, so that a machine that is busy for a while is so for both; no prompt is
sent twice, so that no side finds it cached. AIPerf then does the same with its own means. Run::

    python benchmarks/chat.py [--rounds 8] [--no-aiperf] [--json OUT]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from _aiperf import Load, profile
from _system import system
from _tokenizer import write_tokenizer
from openai import AsyncOpenAI, OpenAIError
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from e3rg.config import load_profile, model_dir

PROMPT_TOKENS = 170  # and about 30 of the chat template
REPLY_TOKENS = 64
LEVELS = {1: 2, 4: 4, 8: 8}  # requests at once: requests in a round; short, to take turns often
TTFT_LIMIT = 1.15
THROUGHPUT_LIMITS = {1: 0.95, 4: 0.90, 8: 0.90}
OUT = Path(__file__).parents[1] / "out" / "aiperf"


@dataclass(frozen=True)
class Side:
    """One of the two servers."""

    name: str
    address: str
    model: str


@dataclass
class Measured:
    """What one side did at one level, in seconds."""

    ttfts: list[float] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0

    @property
    def ttft(self) -> float:
        """The median."""
        return statistics.median(self.ttfts)

    @property
    def throughput(self) -> float:
        """Output tokens a second, of all requests together."""
        return self.tokens / self.seconds


class Prompts:
    """Different prompts of equal length: words of one token each, at random."""

    def __init__(self, tokenizer: Path, seed: int = 1) -> None:
        vocabulary = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).get_vocab()
        self._words = sorted(
            token[1:]
            for token in vocabulary
            if token[0] == "Ġ" and token[1:].isascii() and token[1:].islower() and len(token) > 4
        )
        self._random = random.Random(seed)

    def next(self) -> str:
        words = self._random.choices(self._words, k=PROMPT_TOKENS - 10)
        return f"Tell me a very long story with these words: {' '.join(words)}"


async def ask(client: AsyncOpenAI, side: Side, prompt: str, measured: Measured) -> None:
    start = time.perf_counter()
    first = None
    stream = await client.chat.completions.create(
        model=side.model,
        messages=[{"role": "user", "content": prompt}],
        temperature=0,
        max_tokens=REPLY_TOKENS,
        stream=True,
        stream_options={"include_usage": True},
    )
    async for chunk in stream:
        if first is None and chunk.choices and chunk.choices[0].delta.content:
            first = time.perf_counter() - start
        if chunk.usage is not None:
            measured.tokens += chunk.usage.completion_tokens
            measured.prompt_tokens.append(chunk.usage.prompt_tokens)
    assert first is not None, f"{side.name} said nothing"
    measured.ttfts.append(first)


async def burst(side: Side, prompts: list[str], concurrency: int, measured: Measured) -> None:
    """Send the prompts, so many at once, as AIPerf does."""
    waiting = list(prompts)

    async def worker(client: AsyncOpenAI) -> None:
        while waiting:
            try:
                await ask(client, side, waiting.pop(), measured)
            except OpenAIError as error:
                raise SystemExit(f"{side.name}, {concurrency} at once: {error!r}") from error

    async with AsyncOpenAI(
        base_url=f"{side.address}/v1",
        api_key="x",
        max_retries=0,
        timeout=600,
        # With 8 kept connections one was once closed unanswered, by which side is not known; a
        # connection for each request is the same for both.
        default_headers={"Connection": "close"},
    ) as client:
        start = time.perf_counter()
        await asyncio.gather(*(worker(client) for _ in range(concurrency)))
        measured.seconds += time.perf_counter() - start


def engine_address() -> str:
    """llama.cpp's own server, in the dialogue replica of the system that was started here."""
    for process in psutil.Process().children(recursive=True):
        if "ServeReplica:e3rg:dialogue" not in " ".join(process.cmdline()[:1]):
            continue
        for connection in process.net_connections("tcp"):
            if connection.status != psutil.CONN_LISTEN or connection.laddr.ip != "127.0.0.1":
                continue
            address = f"http://127.0.0.1:{connection.laddr.port}"
            try:
                listed = httpx.get(f"{address}/v1/models", timeout=2, trust_env=False).json()
            except (httpx.HTTPError, ValueError):
                continue
            if listed["data"][0]["owned_by"] == "llamacpp":
                return address
    raise SystemExit("the dialogue replica serves no HTTP; is its engine llama?")


async def compare(
    ours: Side, engine: Side, prompts: Prompts, rounds: int
) -> dict[int, dict[str, Measured]]:
    """Both sides by turns, at all levels."""
    results = {level: {side.name: Measured() for side in (ours, engine)} for level in LEVELS}
    for side in (ours, engine):
        await burst(side, [prompts.next()], 1, Measured())
    for number in range(rounds):
        for level, requests in LEVELS.items():
            order = (ours, engine) if number % 2 else (engine, ours)
            for side in order:
                batch = [prompts.next() for _ in range(requests)]
                await burst(side, batch, level, results[level][side.name])
    return results


def verdict(ratio: float, limit: float, at_most: bool) -> str:
    met = ratio <= limit if at_most else ratio >= limit
    return f"{'≤' if at_most else '≥'} {limit:.2f} {'met' if met else 'MISSED'}"


def show(
    console: Console, title: str, rows: dict[int, tuple[float, float, float, float, int]]
) -> None:
    """Rows: time to first token of ours and the engine's (ms), throughput of both, requests."""
    table = Table(title=title)
    for heading in ("at once", "requests", "", "E3RG", "llama.cpp", "ratio", "aim"):
        table.add_column(heading, justify="right")
    for level, (ttft, ttft_engine, rate, rate_engine, requests) in rows.items():
        ratio = ttft / ttft_engine
        aim = verdict(ratio, TTFT_LIMIT, at_most=True) if level == 1 else ""
        table.add_row(
            str(level),
            str(requests),
            "first token, median ms",
            f"{ttft:.0f}",
            f"{ttft_engine:.0f}",
            f"{ratio:.3f}",
            aim,
        )
        ratio = rate / rate_engine
        aim = verdict(ratio, THROUGHPUT_LIMITS[level], at_most=False)
        table.add_row(
            "", "", "output tokens/s", f"{rate:.1f}", f"{rate_engine:.1f}", f"{ratio:.3f}", aim
        )
    console.print(table)


def run_aiperf(
    console: Console, sides: tuple[Side, Side], tokenizer: Path, json_out: dict[str, Any]
) -> None:
    load = Load(tokenizer, PROMPT_TOKENS, REPLY_TOKENS)
    rows = {}
    for level, requests in LEVELS.items():
        seen = []
        for side in sides:
            folder = OUT / f"{side.name.lower()}-{level}"
            result = profile(side.address, side.model, load, level, requests * 3, folder)
            print(f"\nAIPerf: {side.name}, {level} at once, {result.failed} failed\n{result.table}")
            seen.append(result)
        ours, engine = seen
        rows[level] = (ours.ttft, engine.ttft, ours.throughput, engine.throughput, ours.requests)
    show(console, "AIPerf", rows)
    json_out["aiperf"] = rows


def machine() -> str:
    one, five, _ = os.getloadavg()
    return (
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, "
        f"load average {one:.1f} (1 min) {five:.1f} (5 min) before the start"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--profile", default="local")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--aiperf", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = Console(width=120)
    console.print(machine())
    stage = load_profile(options.profile).stages.dialogue
    name = stage.options.get("model", "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    with tempfile.TemporaryDirectory() as folder, system(options.profile) as address:
        tokenizer = Path(folder)
        write_tokenizer(model_dir() / name, tokenizer)
        ours = Side("E3RG", address, stage.model or "")
        engine = Side("llama.cpp", engine_address(), stage.model or "")
        prompts = Prompts(tokenizer, seed=time.time_ns())
        results = asyncio.run(compare(ours, engine, prompts, options.rounds))
        rows = {}
        for level, sides in results.items():
            a, b = sides[ours.name], sides[engine.name]
            rows[level] = (a.ttft * 1e3, b.ttft * 1e3, a.throughput, b.throughput, len(a.ttfts))
        sizes = [
            n for sides in results.values() for each in sides.values() for n in each.prompt_tokens
        ]
        show(
            console,
            f"Official client, by turns; prompts of {min(sizes)} to {max(sizes)} tokens, "
            f"replies of at most {REPLY_TOKENS}",
            rows,
        )
        written: dict[str, Any] = {
            "machine": machine(),
            "client": {
                level: {k: asdict(v) for k, v in each.items()} for level, each in results.items()
            },
        }
        if options.aiperf:
            run_aiperf(console, (ours, engine), tokenizer, written)
    if options.json is not None:
        options.json.write_text(json.dumps(written, indent=1))


if __name__ == "__main__":
    main()
