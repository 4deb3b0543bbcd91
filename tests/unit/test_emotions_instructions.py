"""Instructions as people write them to a voice, and what they ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e3rg.emotions.instructions import delivery_of
from e3rg.emotions.types import Expression

E = Expression

TEXTS: list[tuple[str, E]] = [
    ("", E.NEUTRAL),
    ("Speak in a cheerful, excited tone.", E.HAPPY),
    ("sad and slow", E.SAD),
    ("do not sound angry", E.NEUTRAL),
    ("Don't sound angry, sound cheerful.", E.HAPPY),
    ("Don't be sad, tired or angry.", E.NEUTRAL),
    ("Not angry, but deeply sad.", E.SAD),
    ("Not only sad but heartbroken.", E.SAD),
    ("Never cheerful; mournful and slow.", E.SAD),
    ("You sound unhappy.", E.SAD),
    ("Speak without anger or excitement.", E.NEUTRAL),
    ("Calm rather than excited.", E.CONCERNED),
    ("Instead of a sad voice, use a happy one.", E.HAPPY),
    ("Say it with disgust.", E.DISGUSTED),
    ("Scared, as if somebody was behind you.", E.FEAR),
    ("Furious! Shout at them.", E.ANGRY),
    ("Astonished, as if you could not believe your eyes", E.SURPRISED),
    ("Dripping with sarcasm and contempt.", E.CONTEMPT),
    ("Talk like a pirate.", E.NEUTRAL),
    ("Set a low pitch, be ready, and go down at the end. It is a kind of poem.", E.NEUTRAL),
    ("Flat, monotone, no emotion.", E.NEUTRAL),
    (
        "Affect: calm, composed, and reassuring; quiet authority.\n"
        "Tone: sincere and empathetic, with genuine concern for the caller.\n"
        "Pacing: slower for the apology, steady for the solution.\n"
        "Pauses: a short one after the apology.",
        E.CONCERNED,
    ),
    (
        "Voice Affect: energetic and animated, like a coach before the match.\n"
        "Tone: upbeat, lively, never gloomy.\n"
        "Pacing: fast, with pauses for effect.\n"
        "Emotion: excitement and joy.",
        E.HAPPY,
    ),
    (
        "Identity: an old storyteller. Delivery: hushed and gentle, as if at a bedside.\n"
        "Emotion: peaceful. Do not rush, and do not sound excited, worried or sad.",
        E.CONCERNED,
    ),
    (
        "Personality: a bored teenager. Tone: sarcastic, dismissive and mocking.\n"
        "Pronunciation: drawn-out vowels.",
        E.CONTEMPT,
    ),
    ("Tone: professional and matter-of-fact, neither happy nor sad.", E.NEUTRAL),
    ("Mournful, grief-stricken; the voice of somebody who is heartbroken.", E.SAD),
    ("Sounding NERVOUS and Worried, with a trembling voice", E.FEAR),
    ("Speak as if you’re not excited at all, just sad.", E.SAD),
]


@pytest.mark.parametrize(("text", "expression"), TEXTS, ids=[text[:40] for text, _ in TEXTS])
def test_what_is_asked_for(text: str, expression: E) -> None:
    delivery = delivery_of(text)
    assert delivery.expression is expression
    assert (delivery.intensity > 0) == (expression is not E.NEUTRAL)


def test_how_much() -> None:
    plain, little, very = (
        delivery_of(text).intensity for text in ("sad", "slightly sad", "very sad")
    )
    assert little < plain < very <= 1
    assert delivery_of("warm").intensity < delivery_of("thrilled").intensity
    assert delivery_of("with a hint of joy").intensity < delivery_of("with joy").intensity


def test_no_word_inside_another() -> None:
    """Failures of like systems: "unhappy" counted as "happy"."""
    for text in ("sadistic", "madrigal", "gladiator", "warmonger", "hopeless", "fearless heroes"):
        assert delivery_of(text).expression in {E.NEUTRAL, E.SAD}
    assert delivery_of("gladiator").expression is E.NEUTRAL


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert 0 <= delivery_of(text).intensity <= 1
