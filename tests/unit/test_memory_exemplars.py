"""The exemplars: enough of them, each its own, in the promised form."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from e3rg.config import ConfigError
from e3rg.emotions.table import load_table
from e3rg.stages.memory.corpus import fingerprint, load_exemplars

EXEMPLARS = load_exemplars()


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def test_every_label_has_at_least_twenty() -> None:
    count = Counter(exemplar.emotion for exemplar in EXEMPLARS)
    assert set(count) == set(load_table().labels)
    assert min(count.values()) >= 20


def test_ids_are_unique_and_name_the_label() -> None:
    assert len({exemplar.id for exemplar in EXEMPLARS}) == len(EXEMPLARS)
    assert all(re.fullmatch(rf"{e.emotion}-\d\d", e.id) for e in EXEMPLARS)


def test_lengths() -> None:
    for exemplar in EXEMPLARS:
        assert 10 <= len(exemplar.situation) <= 200, exemplar
        assert 40 <= len(exemplar.reply) <= 260, exemplar
        assert 2 <= len(re.findall(r"[.!?]+(?=[\s\"]|$)", exemplar.reply)) <= 3, exemplar


def test_no_text_is_a_near_duplicate_of_another() -> None:
    for field in ("situation", "reply"):
        bags = [words(getattr(e, field)) for e in EXEMPLARS]
        column = {word: number for number, word in enumerate(sorted(frozenset().union(*bags)))}
        has = np.zeros((len(bags), len(column)), dtype=np.float32)
        for row, bag in enumerate(bags):
            has[row, [column[word] for word in bag]] = 1
        common = has @ has.T
        size = has.sum(axis=1)
        overlap = np.triu(common / (size[:, None] + size - common), 1)
        one, other = np.unravel_index(overlap.argmax(), overlap.shape)
        assert overlap.max() < 0.6, (EXEMPLARS[one], EXEMPLARS[other])


def test_replies_do_not_sound_alike() -> None:
    starts = Counter(" ".join(e.reply.lower().split()[:3]) for e in EXEMPLARS)
    assert starts.most_common(1)[0][1] <= 4
    firsts = Counter(re.findall(r"\w+", e.reply.lower())[0] for e in EXEMPLARS)
    assert firsts.most_common(1)[0][1] <= len(EXEMPLARS) / 8, firsts.most_common(3)


def test_replies_are_a_listeners() -> None:
    for exemplar in EXEMPLARS:
        assert not re.search(
            r"\bas an ai\b|you should\b(?!n't have to)|(?<!what do )you need to|"
            r"everything happens for a reason|at least you",
            exemplar.reply.lower(),
        ), exemplar


def test_many_situations_do_not_name_their_label() -> None:
    naming = sum(e.emotion[:5] in e.situation.lower() for e in EXEMPLARS)
    assert naming < len(EXEMPLARS) / 3


def test_the_fingerprint_follows_situations_and_embedder() -> None:
    assert fingerprint(EXEMPLARS, "a") == fingerprint(EXEMPLARS, "a")
    assert fingerprint(EXEMPLARS, "a") != fingerprint(EXEMPLARS, "b")
    assert fingerprint(EXEMPLARS, "a") != fingerprint(EXEMPLARS[1:], "a")


@pytest.mark.parametrize("text", ["[[exemplar]]\nsituation = 'x'\n", "exemplar = [", "x = 1"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "sad.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"sad\.toml"):
        load_exemplars(tmp_path)
    with pytest.raises(ConfigError, match="no exemplars"):
        load_exemplars(tmp_path / "none")
