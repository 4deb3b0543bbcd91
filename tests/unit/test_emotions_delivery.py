"""What the listener shows: concern for pain, shared joy, as strong as the speaker's emotion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e3rg.emotions.table import ListenerPolicy, listener_delivery, load_table
from e3rg.emotions.types import Category, Delivery, Emotion, Expression

EMPATHISE, MIRROR = ListenerPolicy.EMPATHISE, ListenerPolicy.MIRROR


def emotion(label: str, intensity: float = 0.8, confidence: float = 0.9) -> Emotion:
    return Emotion(label, load_table().hit(label), intensity, confidence)


@pytest.mark.parametrize(
    ("label", "empathise", "mirror"),
    [
        ("furious", Expression.CONCERNED, Expression.ANGRY),
        ("terrified", Expression.CONCERNED, Expression.FEAR),
        ("disgusted", Expression.CONCERNED, Expression.DISGUSTED),
        ("sad", Expression.CONCERNED, Expression.SAD),
        ("jealous", Expression.CONCERNED, Expression.CONTEMPT),
        ("joyful", Expression.HAPPY, Expression.HAPPY),
        ("surprised", Expression.SURPRISED, Expression.SURPRISED),
        ("devastated", Expression.CONCERNED, Expression.SURPRISED),
        ("anxious", Expression.CONCERNED, Expression.FEAR),
        ("nostalgic", Expression.CONCERNED, Expression.NEUTRAL),
    ],
)
def test_expression(label: str, empathise: Expression, mirror: Expression) -> None:
    assert listener_delivery(emotion(label), EMPATHISE).expression is empathise
    assert listener_delivery(emotion(label), MIRROR).expression is mirror


def test_surprise_is_shared_gently() -> None:
    shown = listener_delivery(emotion("surprised"), EMPATHISE)
    assert shown.intensity < listener_delivery(emotion("joyful"), EMPATHISE).intensity


@pytest.mark.parametrize("category", list(Category))
def test_a_category_from_voice_or_face_outranks_the_label(category: Category) -> None:
    heard = Emotion("joyful" if category is not Category.HAPPY else "sad", category, 0.8, 0.9)
    mirrored = listener_delivery(heard, MIRROR)
    assert mirrored.expression.value == category.value
    kind = {
        Category.NEUTRAL: Expression.NEUTRAL,
        Category.HAPPY: Expression.HAPPY,
        Category.SURPRISED: Expression.SURPRISED,
    }.get(category, Expression.CONCERNED)
    assert listener_delivery(heard, EMPATHISE).expression is kind


@given(
    st.sampled_from(load_table().labels),
    st.sampled_from(ListenerPolicy),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_intensity_follows_the_speaker(
    label: str, policy: ListenerPolicy, low: float, high: float, confidence: float
) -> None:
    low, high = sorted((low, high))
    weak = listener_delivery(emotion(label, low, confidence), policy)
    strong = listener_delivery(emotion(label, high, confidence), policy)
    assert 0 <= weak.intensity <= strong.intensity <= 1


def test_a_doubtful_reading_does_not_change_the_face() -> None:
    before = Delivery(Expression.CONCERNED, 0.6)
    kept = listener_delivery(emotion("joyful", confidence=0.1), EMPATHISE, before)
    assert kept.expression is Expression.CONCERNED
    assert 0 < kept.intensity < before.intensity
    sure = listener_delivery(emotion("joyful", confidence=0.8), EMPATHISE, before)
    assert sure.expression is Expression.HAPPY
