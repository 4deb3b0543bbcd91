"""Emotion from text: HIT, 32-way accuracy, calibration and time on a file of dialogues.

python benchmarks/hit.py [DIALOGUES.jsonl]

The dialogues are no part of this repository: without a file, ``data/empathetic_dev.jsonl`` in the
folder E3RG_SHARED (or ``../shared``) is read, and nothing is measured if it is not there.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from e3rg.config import model_dir
from e3rg.embedding.minilm import MiniLmEmbedder
from e3rg.evaluate.hit import measure_hit, read_dialogues
from e3rg.models.store import ModelStore
from e3rg.stages.understanding.text_emotion import TextEmotion

SHARED = Path(os.environ.get("E3RG_SHARED", Path(__file__).parents[2] / "shared"))
DIALOGUES = SHARED / "data" / "empathetic_dev.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description="Score emotion recognition from text.")
    parser.add_argument(
        "dialogues", type=Path, nargs="?", help="JSON lines: speaker_emotion, turns"
    )
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.dialogues is None and not DIALOGUES.is_file():
        print(f"HIT not measured: there is no {DIALOGUES}; give a file of dialogues")
        return
    embedder = MiniLmEmbedder.load(ModelStore(model_dir()), threads=options.threads)
    report = measure_hit(TextEmotion.load(embedder), read_dialogues(options.dialogues or DIALOGUES))
    print(f"dialogues        {report.dialogues}")
    print(f"HIT              {100 * report.hit:.1f} %")
    print(f"  always happy   {100 * report.always_happy:.1f} %")
    print(f"accuracy of 32   {100 * report.accuracy:.1f} %")
    print(f"ECE              {report.ece:.3f}")
    print(f"one call         p50 {report.p50_ms:.1f} ms   p95 {report.p95_ms:.1f} ms")
    for category, (count, hit) in report.by_category.items():
        print(f"  {category.value:<10} {count:5d} dialogues   HIT {100 * hit:.1f} %")


if __name__ == "__main__":
    main()
