"""Which messages of a conversation stay when it is too long (one token a character here)."""

from collections.abc import Sequence

import pytest

from e3rg.errors import E3RGError
from e3rg.messages import Message
from e3rg.stages.dialogue.window import fit

SYSTEM = Message("system", "s" * 10)
TALK = [
    Message(role, f"{number}" * 10)  # type: ignore[arg-type]
    for number in range(4)
    for role in ("user", "assistant")
]
LAST = Message("user", "l" * 10)


def count(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


@pytest.mark.parametrize(("room", "kept"), [(100, 8), (99, 6), (80, 6), (61, 4), (40, 2), (39, 0)])
def test_oldest_exchanges_go_first(room: int, kept: int) -> None:
    got = fit([SYSTEM, *TALK, LAST], 7, room + 7, count)
    assert got == (SYSTEM, *TALK[8 - kept :], LAST)


def test_system_and_last_message_never_go() -> None:
    assert fit([SYSTEM, *TALK, LAST], 5, 25, count) == (SYSTEM, LAST)
    with pytest.raises(E3RGError, match=r"20 tokens beside 5 .* holds 24") as caught:
        fit([SYSTEM, *TALK, LAST], 5, 24, count)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "text")


def test_a_later_system_message_stays() -> None:
    note = Message("system", "note")
    assert fit([*TALK[:2], note, *TALK[2:], LAST], 0, 14, count) == (note, LAST)


def test_a_lone_message_is_not_left_out() -> None:
    with pytest.raises(E3RGError):
        fit([LAST], 0, 9, count)
