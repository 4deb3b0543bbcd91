"""Fusion keeps one modality as it is, sharpens agreement, and lets the trusted one decide."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e3rg.emotions.table import load_table
from e3rg.emotions.types import Category, Emotion, ModalityScore
from e3rg.stages.understanding.fusion import NEUTRAL_LABEL, fuse
from e3rg.stages.understanding.text_emotion import TextEmotionResult

TABLE = load_table()
SPOKEN = [category for category in Category if category is not Category.NEUTRAL]


def opinion(category: Category, p: float, confidence: float) -> ModalityScore:
    rest = (1 - p) / (len(Category) - 1)
    return ModalityScore({each: p if each is category else rest for each in Category}, confidence)


def words(label: str, confidence: float) -> TextEmotionResult:
    labels = dict.fromkeys(TABLE.labels, (1 - confidence) / 31) | {label: confidence}
    categories = dict.fromkeys(Category, 0.0)
    for each, p in labels.items():
        categories[TABLE.hit(each)] += p
    category = TABLE.hit(label)
    return TextEmotionResult(label, category, 0.7, confidence, labels, categories)


def check(emotion: Emotion) -> None:
    assert sum(emotion.categories.values()) == pytest.approx(1)
    assert sum(emotion.labels.values()) == pytest.approx(1)
    assert max(emotion.categories, key=lambda c: emotion.categories[c]) is emotion.category
    assert 0 <= emotion.confidence <= 1
    assert 0 <= emotion.intensity <= 1
    if emotion.category is Category.NEUTRAL:
        assert emotion.label == NEUTRAL_LABEL
    else:
        assert TABLE.hit(emotion.label) is emotion.category


@pytest.mark.parametrize("label", ["lonely", "furious", "proud", "jealous", "apprehensive"])
def test_text_alone_passes_through(label: str) -> None:
    text = words(label, 0.6)
    emotion = fuse(TABLE, text)
    check(emotion)
    assert (emotion.label, emotion.confidence, emotion.intensity) == (label, 0.6, 0.7)
    assert emotion.categories == text.categories
    assert emotion.labels == pytest.approx(text.labels)
    assert emotion.modalities == {"text": ModalityScore(text.categories, 0.6)}


def test_nothing_known_is_neutral_without_confidence() -> None:
    emotion = fuse(TABLE, None)
    assert (emotion.category, emotion.label) == (Category.NEUTRAL, NEUTRAL_LABEL)
    assert emotion.confidence == emotion.intensity == 0
    assert fuse(TABLE, words("sad", 0.0)) == emotion


@pytest.mark.parametrize("category", list(Category))
def test_face_alone_decides_with_the_label_of_its_name(category: Category) -> None:
    emotion = fuse(TABLE, None, None, opinion(category, 0.7, 0.5))
    check(emotion)
    assert emotion.category is category
    if category is Category.FEAR:
        assert emotion.label == "afraid"


def test_agreement_sharpens_and_disagreement_doubts() -> None:
    text = words("sad", 0.6)
    alone = fuse(TABLE, text)
    agreed = fuse(TABLE, text, None, opinion(Category.SAD, 0.8, 0.5))
    opposed = fuse(TABLE, text, None, opinion(Category.ANGRY, 0.8, 0.5))
    for emotion in (agreed, opposed):
        check(emotion)
        assert emotion.category is Category.SAD
    assert opposed.confidence < alone.confidence < agreed.confidence


def test_the_trusted_modality_wins() -> None:
    smile = opinion(Category.HAPPY, 0.95, 0.6)
    assert fuse(TABLE, words("devastated", 0.85), None, smile).category is Category.SAD
    unsure = fuse(TABLE, words("devastated", 0.3), None, smile)
    check(unsure)
    assert unsure.category is Category.HAPPY


def test_a_straight_face_does_not_hide_grief() -> None:
    still = opinion(Category.NEUTRAL, 0.9, 0.6)
    emotion = fuse(TABLE, words("devastated", 0.4), still, still)
    assert emotion.category is Category.SAD
    assert emotion.modalities["face"].confidence < 0.4
    assert fuse(TABLE, None, None, still).category is Category.NEUTRAL


def test_voice_tips_what_words_leave_open() -> None:
    text = words("sad", 0.35)
    labels = dict(text.labels) | {"angry": 0.34, "sad": 0.35}
    total = sum(labels.values())
    labels = {label: p / total for label, p in labels.items()}
    categories = dict.fromkeys(Category, 0.0)
    for label, p in labels.items():
        categories[TABLE.hit(label)] += p
    open_words = TextEmotionResult(
        "sad", Category.SAD, 0.5, categories[Category.SAD], labels, categories
    )
    assert fuse(TABLE, open_words).category is Category.SAD
    pressed = fuse(TABLE, open_words, opinion(Category.ANGRY, 0.7, 0.3))
    check(pressed)
    assert pressed.category is Category.ANGRY
    assert pressed.label == "angry"
    quiet = opinion(Category.ANGRY, 0.7, 0.01)
    assert fuse(TABLE, open_words, quiet).category is Category.SAD


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(TABLE.labels),
    st.floats(0, 1),
    st.lists(
        st.tuples(st.sampled_from(list(Category)), st.floats(0, 1), st.floats(0, 1)),
        min_size=2,
        max_size=2,
    ),
)
def test_always_a_consistent_emotion(
    label: str, confidence: float, others: list[tuple[Category, float, float]]
) -> None:
    voice, face = (opinion(*other) for other in others)
    check(fuse(TABLE, words(label, max(confidence, 0.1)), voice, face))
