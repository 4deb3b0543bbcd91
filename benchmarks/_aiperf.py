"""Runs AIPerf, NVIDIA's load generator, in its own environment.

https://github.com/ai-dynamo/aiperf
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

COMMAND = Path(__file__).parents[1] / ".venv-aiperf" / "bin" / "aiperf"


@dataclass(frozen=True)
class Load:
    """What AIPerf sends.

    Attributes:
        tokenizer: folder that ``write_tokenizer`` made.
        prompt_tokens: of each prompt, without the chat template.
        reply_tokens: at most, of each reply.
    """

    tokenizer: Path
    prompt_tokens: int
    reply_tokens: int


@dataclass(frozen=True)
class Profile:
    """What AIPerf measured.

    Attributes:
        table: as it prints it.
        ttft: median time to first token, in milliseconds.
        throughput: output tokens a second.
        requests: that succeeded.
        failed: that did not.
    """

    table: str
    ttft: float
    throughput: float
    requests: int
    failed: int


def profile(
    address: str, model: str, load: Load, concurrency: int, requests: int, folder: Path
) -> Profile:
    """Load a server.

    Args:
        address: without ``/v1``.
        model: its name there.
        load: what is sent.
        concurrency: requests at once.
        requests: in all.
        folder: where AIPerf's files are kept.
    """
    if not COMMAND.exists():
        raise SystemExit(f"{COMMAND} is missing: run make clients")
    options = {
        "model": model,
        "url": address,
        "endpoint-type": "chat",
        "concurrency": concurrency,
        "request-count": requests,
        # No warm-up: it would send prompts that are sent again, and found cached.
        "synthetic-input-tokens-mean": load.prompt_tokens,
        "synthetic-input-tokens-stddev": 0,
        "output-tokens-mean": load.reply_tokens,
        "output-tokens-stddev": 0,
        "extra-inputs": "temperature:0",
        "tokenizer": load.tokenizer,
        # Both sides run on the same engine: other prompts, or one side finds the other's cached.
        "random-seed": int.from_bytes(os.urandom(3), "big"),
        "output-artifact-dir": folder,
        "ui": "none",
    }
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    flags = ["--streaming", "--use-server-token-count", "--no-gpu-telemetry", "--no-server-metrics"]
    done = subprocess.run(
        [str(COMMAND), "profile", *arguments, *flags],
        capture_output=True,
        text=True,
        timeout=1800,
        env={**os.environ, "COLUMNS": "140", "NO_COLOR": "1"},
    )
    result = folder / "profile_export_aiperf.json"
    if done.returncode or not result.exists():
        raise SystemExit(f"aiperf failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    seen = json.loads(result.read_text())
    return Profile(
        table=_table(done.stdout),
        ttft=seen["time_to_first_token"]["p50"],
        throughput=seen["output_token_throughput"]["avg"],
        requests=int(seen["request_count"]["avg"]),
        failed=int((seen.get("error_request_count") or {"avg": 0})["avg"]),
    )


def _table(printed: str) -> str:
    """The table of metrics, without the log around it."""
    lines = printed.splitlines()
    first = next((n for n, line in enumerate(lines) if line.rstrip().endswith("LLM Metrics")), 0)
    last = max((n for n, line in enumerate(lines) if line.startswith("└")), default=len(lines))
    return "\n".join(lines[first : last + 1])
