"""One emotion from what text, voice and face each say.

Logarithmic opinion pool (Genest and Zidek 1986, doi:10.1214/ss/1177013825):

    p(c) ∝ Π over modalities m of q_m(c) ** w_m,    w_m = confidence_m / largest confidence

where q_m is the modality's distribution, mixed with the even one until its peak is no higher than
its confidence: nets are surer of themselves than they are right. The most trusted modality keeps
its say and the others tilt it, so that agreement sharpens and a doubtful modality barely counts.
One modality alone passes through unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from e3rg.emotions.table import EmotionTable
from e3rg.emotions.types import Category, Emotion, ModalityScore
from e3rg.stages.understanding.text_emotion import TextEmotionResult

# No modality can rule a category out: the face net, for one, has no class for contempt.
_FLOOR = 0.02
# People who tell of grief often keep a straight face and an even voice: neutral there says less
# of what is felt than an expression does.
_STILL_DISCOUNT = 0.6
_MAX_CONFIDENCE = 0.98
# None of the 32 labels is neutral; the calmest one stands in, and the category says so.
NEUTRAL_LABEL = "content"


def fuse(
    table: EmotionTable,
    text: TextEmotionResult | None,
    voice: ModalityScore | None = None,
    face: ModalityScore | None = None,
) -> Emotion:
    """Fuse the modalities that are present.

    Args:
        table: the 32 labels.
        text: what the words say; None or confidence 0 where there are none.
        voice: what the voice says, or None.
        face: what the face says, or None.

    Returns:
        The emotion. Its label is the likeliest of the fused category's labels: by the words where
        there are some, else the one of the category's name.
    """
    modalities: dict[str, ModalityScore] = {}
    if text is not None and text.confidence > 0:
        modalities["text"] = ModalityScore(text.categories, text.confidence)
    for name, score in (("voice", voice), ("face", face)):
        if score is not None and score.confidence > 0:
            modalities[name] = _discounted(score)
    if not modalities:
        return Emotion(NEUTRAL_LABEL, Category.NEUTRAL, 0.0, 0.0)
    categories = pool(modalities)
    category = max(categories, key=lambda each: categories[each])
    words = text if "text" in modalities else None
    labels = _labels(table, words, categories)
    return Emotion(
        label=_label(table, words, labels, category),
        category=category,
        intensity=_intensity(words, category, modalities),
        confidence=_confidence(modalities, categories, category),
        labels=labels,
        categories=categories,
        modalities=modalities,
    )


def pool(modalities: Mapping[str, ModalityScore]) -> dict[Category, float]:
    """The pooled distribution of one or more modalities; one alone keeps its own."""
    if len(modalities) == 1:
        (only,) = modalities.values()
        return {category: only.categories.get(category, 0.0) for category in Category}
    largest = max(score.confidence for score in modalities.values())
    weights = dict.fromkeys(Category, 1.0)
    for score in modalities.values():
        for category, p in _honest(score).items():
            weights[category] *= p ** (score.confidence / largest)
    total = sum(weights.values())
    return {category: weight / total for category, weight in weights.items()}


def _honest(score: ModalityScore) -> dict[Category, float]:
    even = 1 / len(Category)
    peak = max(score.categories.values())
    share = (score.confidence - even) / (peak - even) if peak > even else 0.0
    share = min(1 - _FLOOR, max(0.0, share))
    return {
        category: share * score.categories.get(category, 0.0) + (1 - share) * even
        for category in Category
    }


def _discounted(score: ModalityScore) -> ModalityScore:
    still = score.categories.get(Category.NEUTRAL, 0.0)
    return ModalityScore(score.categories, score.confidence * (1 - _STILL_DISCOUNT * still))


def _labels(
    table: EmotionTable, text: TextEmotionResult | None, categories: Mapping[Category, float]
) -> dict[str, float]:
    """Each category's share goes to its labels, as the words divide it, or evenly without words."""
    within = dict.fromkeys(table.labels, 1.0) if text is None else dict(text.labels)
    shares = dict.fromkeys(Category, 0.0)
    for label, p in within.items():
        shares[table.hit(label)] += p
    # Neutral has no label: what it holds is left out.
    spoken = {
        label: p / max(shares[table.hit(label)], 1e-9) * categories[table.hit(label)]
        for label, p in within.items()
    }
    total = sum(spoken.values())
    return {label: p / total for label, p in spoken.items()} if total > 0 else within


def _label(
    table: EmotionTable,
    text: TextEmotionResult | None,
    labels: Mapping[str, float],
    category: Category,
) -> str:
    if text is not None and text.category is category:
        return text.label
    named = table.resolve(category.value)
    own = [label for label in table.labels if table.hit(label) is category]
    if not own:
        return NEUTRAL_LABEL
    if text is None and named in own:
        return str(named)
    return max(own, key=lambda label: labels[label])


def _intensity(
    text: TextEmotionResult | None, category: Category, modalities: Mapping[str, ModalityScore]
) -> float:
    """Mean over modalities: the words' intensity, and how far voice and face are from neutral."""
    if category is Category.NEUTRAL:
        return 0.0
    total = weight = 0.0
    for name, score in modalities.items():
        if name == "text" and text is not None:
            strength = text.intensity
        else:
            strength = 1 - score.categories.get(Category.NEUTRAL, 0.0)
        total += score.confidence * strength
        weight += score.confidence
    return min(1.0, total / weight)


def _confidence(
    modalities: Mapping[str, ModalityScore],
    categories: Mapping[Category, float],
    category: Category,
) -> float:
    if len(modalities) == 1:
        (only,) = modalities.values()
        return only.confidence
    return min(_MAX_CONFIDENCE, categories[category])
