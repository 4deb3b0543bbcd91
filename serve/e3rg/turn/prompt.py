"""The reply's prompt: who listens, what the speaker feels, and how good listeners answered.

E3RG's second and third step (arXiv 2508.12854): retrieved empathy examples and the explicit emotion
condition the generation. The order is fixed first, changing last, so that a server's prefix cache
keeps the listener's part of it between turns.
"""

from __future__ import annotations

from collections.abc import Sequence

from e3rg.emotions.types import Emotion
from e3rg.identities.types import Identity
from e3rg.messages import Message
from e3rg.stages.memory.engine import Episode, Exemplar, Retrieval

_MAX_HISTORY_CHARS = 1500
_RULES = (
    "Answer in two or three short, warm sentences: name the feeling, say why it makes sense, "
    "ask one gentle question."
)


def build_prompt(
    identity: Identity,
    text: str,
    emotion: Emotion,
    retrieval: Retrieval,
    history: Sequence[Message] = (),
    instructions: str = "",
) -> tuple[Message, ...]:
    """Compose the messages of a reply.

    Args:
        identity: the listener.
        text: what the speaker said.
        emotion: what was recognised.
        retrieval: what memory found; all of it is used.
        history: earlier lines, oldest first; the newest that fit are kept.
        instructions: what the application asks, beside the listener's own profile.
    """
    system = f"You are {identity.name}. {identity.profile} {_RULES}"
    if instructions:
        system += f" {instructions}"
    if retrieval.episodes:
        system += " Earlier this person told you: " + " ".join(map(_recall, retrieval.episodes))
    messages = [Message("system", system)]
    # The nearest example stands last, where small models look most.
    for exemplar in reversed(retrieval.exemplars):
        messages += _example(exemplar)
    messages += _newest(history)
    messages.append(Message("user", _said(text, emotion.label)))
    return tuple(messages)


def _said(text: str, feeling: str) -> str:
    return f"[feels {feeling}] {text}"


def _example(exemplar: Exemplar) -> list[Message]:
    return [
        Message("user", _said(exemplar.situation, exemplar.emotion)),
        Message("assistant", exemplar.reply),
    ]


def _recall(episode: Episode) -> str:
    return f'"{episode.text[:160]}" (felt {episode.emotion}).'


def _newest(history: Sequence[Message]) -> list[Message]:
    kept: list[Message] = []
    room = _MAX_HISTORY_CHARS
    for message in reversed(history):
        room -= len(message.content)
        if room < 0:
            break
        kept.append(message)
    # A chat template expects the first line to be the user's.
    while kept and kept[-1].role != "user":
        kept.pop()
    return kept[::-1]
