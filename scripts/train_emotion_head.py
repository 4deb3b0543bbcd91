"""Train the head that recognises emotion from text (serve/e3rg/stages/understanding).

    python scripts/train_emotion_head.py GOEMOTIONS_FOLDER [--check]

GOEMOTIONS_FOLDER holds ``train.tsv`` and ``labels.txt`` of GoEmotions (Demszky et al., ACL 2020,
Apache-2.0). The other texts are the project's own: scripts/emotion_situations_*.toml and the
situations of the memory exemplars.

Two steps, both multinomial logistic regression on MiniLM vectors. The first learns 28 emotions
from GoEmotions. The second learns the 32 labels and ``neutral`` from the project's situations,
and sees the first one's 28 scores beside the vector: some hundred situations alone cannot teach
which words are pleasant. Both are linear, so what ships is one matrix. The temperature is fitted
across writers: trained on one writer's situations, fitted on the other's.

One thread and a fixed order of sums give the same bits in every run on one kind of processor.
``--check`` trains again and compares with the file that ships.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tomllib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from e3rg.config import model_dir
from e3rg.embedding.minilm import MiniLmEmbedder
from e3rg.emotions.table import load_table
from e3rg.models.store import ModelStore
from e3rg.stages.understanding.text_emotion import HEAD

ROOT = Path(__file__).resolve().parents[1]
EXEMPLARS = ROOT / "serve" / "e3rg" / "stages" / "memory" / "exemplars"
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
COMMENTS = 36_000
SCORE_SCALE = 0.15  # of the GoEmotions scores, beside vectors of length 1

TABLE = load_table()
CLASSES = (*TABLE.labels, "neutral")
Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


def goemotions(folder: Path) -> tuple[list[str], Indices, int]:
    """The first COMMENTS comments that have one label: texts, label indices, number of labels."""
    labels = (folder / "labels.txt").read_text(encoding="utf-8").split()
    texts: list[str] = []
    targets: list[int] = []
    for line in (folder / "train.tsv").read_text(encoding="utf-8").split("\n"):
        text, _, rest = line.partition("\t")
        label = rest.partition("\t")[0]
        if label.isdecimal() and len(texts) < COMMENTS:
            texts.append(text.replace("[NAME]", "Sam").replace("[RELIGION]", "faith"))
            targets.append(int(label))
    return texts, np.array(targets), len(labels)


def situations() -> tuple[list[str], Indices, Indices]:
    """The project's situations: texts, class indices, writer (0 or 1)."""
    found: list[tuple[str, str, int]] = []
    for path in sorted((ROOT / "scripts").glob("emotion_situations_*.toml")):
        for label, texts in tomllib.loads(path.read_text(encoding="utf-8")).items():
            found += [(text, label, 0) for text in texts]
    for path in sorted(EXEMPLARS.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["exemplar"]:
            found.append((entry["situation"], path.stem, 1))
    texts, labels, writers = zip(*found, strict=True)
    return list(texts), np.array([CLASSES.index(each) for each in labels]), np.array(writers)


def softmax(logits: Floats) -> Floats:
    """Rows of probabilities."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: Floats = p / p.sum(axis=1, keepdims=True)
    return result


def fit(
    x: Floats, y: Indices, classes: int, penalty: float, steps: int = 300
) -> tuple[Floats, Floats]:
    """Multinomial logistic regression by Nesterov's method on the full batch.

    Args:
        x: (n, d) features.
        y: (n,) class indices.
        classes: how many there are.
        penalty: weight of half the squared norm of the matrix.
        steps: gradient steps.

    Returns:
        Matrix (d, classes) and bias (classes,).
    """
    n, d = x.shape
    one_hot = np.eye(classes, dtype=np.float32)[y]
    rate = np.float32(1 / (0.175 * ((x**2).sum(axis=1).mean() + 1) + penalty))
    weight = last_weight = np.zeros((d, classes), np.float32)
    bias = last_bias = np.zeros(classes, np.float32)
    for step in range(steps):
        momentum = np.float32(step / (step + 3))
        ahead = weight + momentum * (weight - last_weight)
        ahead_bias = bias + momentum * (bias - last_bias)
        error = (softmax(x @ ahead + ahead_bias) - one_hot) / np.float32(n)
        last_weight, last_bias = weight, bias
        weight = ahead - rate * (x.T @ error + np.float32(penalty) * ahead)
        bias = ahead_bias - rate * error.sum(axis=0)
    return weight, bias


def train(vectors: Floats, y: Indices, scores: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Second step: the head on vectors and GoEmotions scores, folded into one matrix."""
    raw = vectors @ scores[0] + scores[1]
    center, scale = raw.mean(axis=0), np.float32(SCORE_SCALE) / raw.std(axis=0)
    features = np.hstack([vectors, (raw - center) * scale])
    weight, bias = fit(features, y, len(CLASSES), penalty=2e-4)
    direct, through = weight[: vectors.shape[1]], weight[vectors.shape[1] :] * scale[:, None]
    return direct + scores[0] @ through, bias + (scores[1] - center) @ through


def temperature(
    vectors: Floats, y: Indices, writers: Indices, scores: tuple[Floats, Floats]
) -> float:
    """The temperature that makes the category's log likelihood largest, across the two writers."""
    kinds = [*(TABLE.hit(label).value for label in TABLE.labels), "neutral"]
    names = sorted(set(kinds))
    to_category = np.array([[kind == name for name in names] for kind in kinds], np.float32)
    grid = np.linspace(0.5, 4.0, 71)
    total = np.zeros_like(grid)
    for writer in (0, 1):
        known = writers == writer
        weight, bias = train(vectors[known], y[known], scores)
        logits = vectors[~known] @ weight + bias
        wanted = to_category[y[~known]]
        for n, t in enumerate(grid):
            p = (softmax(logits / np.float32(t)) @ to_category * wanted).sum(axis=1)
            total[n] += np.log(p).mean()
    return float(grid[total.argmax()])


def main() -> int:
    """Train, and write or compare; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("goemotions", type=Path)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    if not ONE_THREAD.items() <= os.environ.items():
        # The order of a threaded sum is not fixed, and NumPy reads this only when it is imported.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})

    embedder = MiniLmEmbedder.load(ModelStore(model_dir()))
    comments, targets, emotions = goemotions(options.goemotions)
    print(f"embedding {len(comments)} comments", flush=True)
    scores = fit(embedder.embed(comments), targets, emotions, penalty=1e-5, steps=250)
    texts, y, writers = situations()
    vectors = embedder.embed(texts)
    weight, bias = train(vectors, y, scores)
    heat = temperature(vectors, y, writers, scores)
    print(f"{len(texts)} situations, temperature {heat:.2f}")

    buffer = io.BytesIO()
    np.savez(buffer, weight=weight, bias=bias, temperature=np.float32(heat), classes=CLASSES)
    if options.check:
        same = HEAD.read_bytes() == buffer.getvalue()
        print("the shipped head is the same" if same else "the shipped head DIFFERS")
        return 0 if same else 1
    HEAD.write_bytes(buffer.getvalue())
    print(f"wrote {HEAD} ({len(buffer.getvalue())} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
