"""Fits a conversation into a model's window by leaving out its oldest exchanges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from e3rg.errors import E3RGError
from e3rg.messages import Message


def too_long(tokens: int, max_tokens: int | None, window: int) -> E3RGError:
    """The error for a conversation that cannot be made to fit; all sizes in tokens."""
    beside = "" if max_tokens is None else f" beside {max_tokens} of the reply"
    return E3RGError(
        "context_length_exceeded",
        f"the text needs {tokens} tokens{beside}, but the model's window "
        f"holds {window}; send a shorter text",
        param="text",
    )


def fit(
    messages: Sequence[Message],
    max_tokens: int,
    window: int,
    count: Callable[[Sequence[Message]], int],
) -> tuple[Message, ...]:
    """Leave out as few of the oldest exchanges as make prompt and reply fit.

    An exchange is a user's message with the answers to it. System messages stay, and so does the
    last user message with all that follows it.

    Args:
        messages: the conversation, oldest first.
        max_tokens: the reply's length, in tokens.
        window: what prompt and reply share, in tokens.
        count: tokens of a prompt; called O(log exchanges) times.

    Raises:
        E3RGError: ``context_length_exceeded`` (param ``text``).
    """
    room = window - max_tokens
    if count(messages) <= room:
        return tuple(messages)
    end = max((i for i, m in enumerate(messages) if m.role == "user"), default=0)
    cuts = [*[i for i, m in enumerate(messages[:end]) if m.role == "user"][1:], end]

    def without(cut: int) -> tuple[Message, ...]:
        return (*(m for m in messages[:cut] if m.role == "system"), *messages[cut:])

    at = bisect_left(cuts, True, key=lambda cut: count(without(cut)) <= room)
    if at == len(cuts):
        raise too_long(count(without(end)), max_tokens, window)
    return without(cuts[at])
