"""The emotion table: its 32 rows, its two maps, and words that are matched whole."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e3rg.emotions.table import TABLE, load_table, parse_table
from e3rg.emotions.types import Category, Expression

TABLE_TEXT = TABLE.read_text(encoding="utf-8")


def test_it_has_the_32_labels_of_empathetic_dialogues() -> None:
    names = """
        afraid angry annoyed anticipating anxious apprehensive ashamed caring confident content
        devastated disappointed disgusted embarrassed excited faithful furious grateful guilty
        hopeful impressed jealous joyful lonely nostalgic prepared proud sad sentimental surprised
        terrified trusting
    """
    assert load_table().labels == tuple(names.split())


def test_the_two_released_maps_differ_on_five_labels() -> None:
    table = load_table()
    differ = {x: (table.hit(x), table.avatar(x)) for x in table.labels}
    assert {x: pair for x, pair in differ.items() if pair[0] is not pair[1]} == {
        "anxious": (Category.SAD, Category.FEAR),
        "devastated": (Category.SAD, Category.SURPRISED),
        "disappointed": (Category.SAD, Category.CONTEMPT),
        "nostalgic": (Category.SAD, Category.NEUTRAL),
        "prepared": (Category.HAPPY, Category.NEUTRAL),
    }


@pytest.mark.parametrize(
    ("word", "label"),
    [
        ("happy", "joyful"),
        ("unhappy", "sad"),
        ("Happy.", "joyful"),
        ("  FED   up ", "annoyed"),
        ("tired", "sad"),
        ("overwhelmed", "anxious"),
        ("angry", "angry"),
        ("content", "content"),
        ("discontent", None),
        ("unafraid", None),
        ("not happy", None),
        ("saddle", None),
        ("I am sad", None),
        ("neutral", None),
        ("", None),
    ],
)
def test_whole_words_resolve(word: str, label: str | None) -> None:
    assert load_table().resolve(word) == label


@given(st.sampled_from(sorted(load_table().words)), st.sampled_from(["un", "x", "in", "dis"]))
def test_a_word_inside_another_is_not_found(word: str, prefix: str) -> None:
    table = load_table()
    if prefix + word not in table.words:
        assert table.resolve(prefix + word) is None
        assert table.resolve(f"{word} {prefix}") is None


def test_every_word_resolves_to_its_label() -> None:
    table = load_table()
    for label in table.labels:
        for word in (label, *table.row(label).synonyms):
            assert table.resolve(word) == label


def test_it_is_read_once_and_cannot_be_changed() -> None:
    table = load_table()
    assert load_table() is table
    with pytest.raises(TypeError):
        table.words["fine"] = "content"  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.row("sad").hit = Category.HAPPY  # type: ignore[misc]


def test_concern_meets_what_hurts_and_joy_meets_joy() -> None:
    for row in load_table().rows.values():
        if row.hit is Category.HAPPY:
            assert row.listener is Expression.HAPPY, row.label
        elif row.hit is Category.SURPRISED:
            assert row.listener is Expression.SURPRISED, row.label
        else:
            assert row.listener is Expression.CONCERNED, row.label


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('label = "angry"', 'label = "afraid"', "afraid"),
        ('"irritated"', '"scared"', "scared"),
        ("warmth = 0.9", "warmth = 1.9", "range"),
        ('hit = "angry"', 'hit = "cross"', "cross"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(old: str, new: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_table(TABLE_TEXT.replace(old, new, 1))
