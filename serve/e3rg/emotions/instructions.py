"""How to say something, read out of what people write to a voice: "Warm, but not too cheerful."

Words count whole, never as parts of others ("unhappy" is not "happy"), and not where they are
denied. Two vocabularies: words for voices, here, and the emotion table's labels and synonyms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from e3rg.emotions.table import EmotionRow, load_table
from e3rg.emotions.types import Category, Delivery, Expression

NEUTRAL = Delivery(Expression.NEUTRAL, 0.0)

# What is asked of voices is said in other words than what people feel, and some of the table's
# mean another thing here: a calm voice is soft and slow, not glad.
_VOICES: tuple[tuple[Expression, float, str], ...] = (
    (Expression.HAPPY, 0.4, "warm warmth warmly friendly welcoming inviting pleasant hopeful"),
    (Expression.HAPPY, 0.6, "cheery bright brightly positive fun charming encouraging smile"),
    (Expression.HAPPY, 0.6, "smiling humorous witty lighthearted light-hearted passionate"),
    (
        Expression.HAPPY,
        0.8,
        "upbeat bubbly lively vibrant animated spirited jolly sunny exuberant peppy perky bouncy "
        "cheerfully happily joyfully excitedly enthusiastically energetically energy hyped",
    ),
    (
        Expression.CONCERNED,
        0.4,
        "calm calmly calming relaxed relaxing peaceful serene tranquil soothing soft softly "
        "gentle gently tender tenderly soft-spoken hushed whisper whispered whispering "
        "meditative quiet quietly mellow patient",
    ),
    (
        Expression.CONCERNED,
        0.7,
        "reassuring reassuringly reassurance comforting consoling empathetic empathetically "
        "empathy sympathetic sympathetically sympathy compassionate compassion concerned "
        "concern caring apologetic apologetically understanding supportive sincere",
    ),
    (Expression.SAD, 0.7, "solemn somber sombre mournful mournfully sorrowfully sadly bleak grave"),
    (Expression.SAD, 0.7, "gloom dejected downcast crying tearfully"),
    (Expression.ANGRY, 0.5, "stern sternly harsh"),
    (Expression.ANGRY, 0.8, "angrily aggressive aggressively shouting yelling furiously heated"),
    (Expression.FEAR, 0.6, "fearfully nervously anxiously urgent urgency urgently trembling"),
    (Expression.FEAR, 0.6, "alarmed alarm suspenseful"),
    (Expression.SURPRISED, 0.7, "gasping awestruck wonder disbelief"),
    (
        Expression.CONTEMPT,
        0.7,
        "sarcastic sarcastically sarcasm mocking disdainful disdain condescending smug snarky "
        "sneering dismissive haughty",
    ),
    (
        Expression.NEUTRAL,
        0.0,
        "neutral neutrally monotone flat deadpan emotionless unemotional composed professional "
        "formal matter-of-fact robotic dispassionate detached steady serious",
    ),
)
_WORDS = {
    word: Delivery(expression, strength)
    for expression, strength, words in _VOICES
    for word in words.split()
}
# Words of the table that seldom say how to sound: "set the pace", "a kind of", "low pitch".
_IGNORED = frozenset({
    "set", "ready", "low", "down", "cross", "strong", "certain", "safe", "secure", "moved",
    "blue", "empty", "hurt", "alone", "love", "kind", "thanks", "hope", "trust", "touched",
    "focused", "organized", "equipped", "committed", "dependable", "determined", "capable",
    "confident", "confidence", "assured", "self-assured", "emotional", "mad", "religious",
    "validated", "successful", "respectful", "dedicated", "fortunate", "lucky", "blessed",
})  # fmt: skip
# As a voice shows them; the table's ``hit`` column counts them as another emotion's.
_LABELS = {
    "anxious": Expression.FEAR,
    "embarrassed": Expression.FEAR,
    "caring": Expression.CONCERNED,
    "guilty": Expression.CONCERNED,
    "prepared": Expression.NEUTRAL,
}
_BY_VALENCE = frozenset({Category.SAD, Category.DISGUSTED, Category.CONTEMPT})

_WEAKER = re.compile(
    r"\b(slight(?:ly)?|a (?:little|bit|touch|hint|trace)(?: of)?|subtl[ey]|mild(?:ly)?|somewhat"
    r"|faint(?:ly)?|quietly|gently)(?: \w+)?$"
)
_STRONGER = re.compile(
    r"\b(very|extreme(?:ly)?|really|deep(?:ly)?|intense(?:ly)?|utter(?:ly)?|highly|super|so)$"
)
_SENTENCE = re.compile(r"[.;:!?\n]+(?=\s|$)|\n+")
_DENIAL = re.compile(
    r"\b(?:not(?! (?:only|just|merely))|don't|do not|never|no|without|avoid|avoids|avoiding|isn't"
    r"|aren't|shouldn't|mustn't|can't|cannot|rather than|instead of|neither|nor|free of|lacking"
    r"|less|nothing|far from|stop|hardly|devoid of)\b|\bnon-"
)
_TURN = re.compile(
    r"\b(?:but|instead(?! of)|yet|however|just|only|rather(?! than)|always)\b"
    r"|,\s*(?:be|sound|speak|stay|keep|use|remain|talk|read|say|make|with|more|simply)\b"
)


def delivery_of(instructions: str) -> Delivery:
    """The delivery that instructions ask for; neutral where they name no emotion.

    Where they name several, the one that is named most, or else first, wins.

    Args:
        instructions: free text in English.
    """
    votes: dict[Expression, list[float]] = {}
    text = instructions.casefold().replace("’", "'")
    for sentence in _SENTENCE.split(text):
        affirmed = _affirmed(sentence)
        for start, delivery in _named(affirmed):
            before = affirmed[:start].rstrip()
            gain = 0.5 if _WEAKER.search(before) else 1.3 if _STRONGER.search(before) else 1.0
            votes.setdefault(delivery.expression, []).append(delivery.intensity * gain)
    if not votes:
        return NEUTRAL
    chosen = max(votes, key=lambda expression: len(votes[expression]))
    strengths = votes[chosen]
    return Delivery(chosen, min(1.0, sum(strengths) / len(strengths)))


def _affirmed(sentence: str) -> str:
    """A sentence with what it denies blanked out.

    A denial holds up to a turn ("but", ", sound ..."), or up to the first comma unless a list goes
    on ("not sad, tired or angry").
    """
    kept = sentence
    for denial in _DENIAL.finditer(sentence):
        rest = sentence[denial.end() :]
        turn = _TURN.search(rest)
        scope = rest[: turn.start()] if turn else rest
        if "," in scope and not re.search(r"\b(?:or|nor)\b", scope):
            scope = scope[: scope.index(",")]
        end = denial.end() + len(scope)
        kept = kept[: denial.start()] + " " * (end - denial.start()) + kept[end:]
    return kept


def _named(text: str) -> Iterator[tuple[int, Delivery]]:
    """Each place where a word or phrase of the vocabularies stands, longest first."""
    taken = 0
    words = list(re.finditer(r"[\w'-]+", text))
    for index, word in enumerate(words):
        if word.start() < taken:
            continue
        for count in (3, 2, 1):
            phrase = words[index : index + count]
            if len(phrase) < count:
                continue
            delivery = _meaning(text[word.start() : phrase[-1].end()])
            if delivery is not None:
                taken = phrase[-1].end()
                yield word.start(), delivery
                break


def _meaning(phrase: str) -> Delivery | None:
    if phrase in _WORDS:
        return _WORDS[phrase]
    table = load_table()
    label = None if phrase in _IGNORED else table.resolve(phrase)
    return None if label is None else _voiced(table.row(label))


def _voiced(row: EmotionRow) -> Delivery:
    """How a voice shows a label: as strong as it is unpleasant, or as it is agitated."""
    expression = _LABELS.get(row.label, Expression(row.hit.value))
    if expression is Expression.CONCERNED:
        return Delivery(expression, row.warmth)
    if expression is Expression.NEUTRAL:
        return NEUTRAL
    strength = abs(row.valence) if row.hit in _BY_VALENCE else row.arousal
    return Delivery(expression, strength)
