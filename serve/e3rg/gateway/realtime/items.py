"""The items of a session's conversation, and what was heard of each reply.

https://platform.openai.com/docs/api-reference/realtime-client-events/conversation/item/create
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from e3rg.errors import E3RGError
from e3rg.gateway.realtime.events import Event
from e3rg.media.types import Pcm
from e3rg.messages import Message

Role = Literal["system", "user", "assistant"]
Kind = Literal["input_text", "input_audio", "input_image", "output_text", "output_audio"]
Status = Literal["completed", "incomplete", "in_progress"]

MAX_ITEMS = 200
"""Items of one conversation; the oldest go first."""
_MAX_PICTURES = 24
"""Pictures that wait for an answer; the oldest go first."""


@dataclass(slots=True)
class Part:
    """One part of an item's content.

    Attributes:
        kind: its type on the wire.
        text: the words; of sound its transcript.
        audio: the speaker's voice at 16 kHz, until it was answered.
        understood: of sound: its words are known, or it has none.
        image: a JPEG still, once the picture was read.
    """

    kind: Kind
    text: str = ""
    audio: Pcm | None = None
    image: bytes | None = None
    understood: bool = False

    def to_json(self) -> dict[str, Any]:
        """As clients see it; without sound and pictures."""
        if self.kind in ("input_audio", "output_audio"):
            transcript = self.text if self.kind == "output_audio" or self.text else None
            return {"type": self.kind, "transcript": transcript}
        if self.kind == "input_image":
            return {"type": self.kind}
        return {"type": self.kind, "text": self.text}


class Spoken:
    """Which words of a reply are heard when."""

    def __init__(self) -> None:
        self._pieces: list[tuple[str, float]] = []
        self.seconds = 0.0

    def add(self, text: str, seconds: float) -> None:
        """The next piece, and how long it is."""
        self._pieces.append((text.strip(), seconds))
        self.seconds += seconds

    def until(self, seconds: float) -> str:
        """The words heard by a time; of the piece that is being spoken, its share of words."""
        heard: list[str] = []
        for text, length in self._pieces:
            words = text.split()
            share = min(seconds / length, 1.0) if length else 1.0
            heard += words[: int(len(words) * share + 1e-6)]
            seconds -= length
            if seconds <= 0:
                break
        return " ".join(heard)


@dataclass(slots=True)
class Item:
    """One message.

    Attributes:
        turn: of a reply: the recorded turn that gave it.
        spoken: of a spoken reply: its words in time.
        stills: pictures of the speaker that came with it.
    """

    id: str
    role: Role
    parts: list[Part]
    status: Status = "completed"
    turn: str | None = None
    spoken: Spoken | None = None
    stills: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def text(self) -> str:
        """All its words."""
        return "\n".join(part.text for part in self.parts if part.text)

    @property
    def unheard(self) -> list[Part]:
        """The parts with sound whose words are not known yet."""
        return [part for part in self.parts if part.audio is not None and not part.understood]

    @property
    def voices(self) -> list[Pcm]:
        """Its sound, as far as it is kept."""
        return [part.audio for part in self.parts if part.audio is not None]

    @property
    def pictures(self) -> tuple[bytes, ...]:
        """Its pictures, and those of its speaker."""
        return tuple(part.image for part in self.parts if part.image is not None) + self.stills

    def forget_voices(self) -> None:
        """Its sound was answered, or must go."""
        for part in self.parts:
            part.audio = None

    def forget_pictures(self) -> None:
        """Its pictures were answered, or must go."""
        self.stills = ()
        for part in self.parts:
            part.image = None

    def to_json(self) -> Event:
        """As clients see it."""
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "message",
            "status": self.status,
            "role": self.role,
            "content": [part.to_json() for part in self.parts],
        }


class Conversation:
    """The items, oldest first."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}

    def __iter__(self) -> Iterator[Item]:
        return iter(tuple(self._items.values()))

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    @property
    def last(self) -> str | None:
        """Id of the newest item."""
        return next(reversed(self._items), None)

    def before(self, item: str) -> str | None:
        """Id of the item before one."""
        order = list(self._items)
        place = order.index(item) if item in self._items else 0
        return order[place - 1] if place else None

    def make_room(self, seconds: float, most: float) -> None:
        """Keep the sound that waits for an answer within a bound: the oldest of known words goes.

        Raises:
            E3RGError: ``audio_too_long`` where that is not enough.
        """
        for item in [*self, None]:
            if seconds + sum(voice.seconds for each in self for voice in each.voices) <= most:
                return
            if item is not None and not item.unheard:
                item.forget_voices()
        raise E3RGError(
            "audio_too_long",
            f"the conversation holds {most:.0f} s of sound that no response has answered; create "
            "a response, or delete items",
        )

    def get(self, item: object) -> Item:
        """An item by id.

        Raises:
            E3RGError: ``item_not_found``.
        """
        found = self._items.get(item) if isinstance(item, str) else None
        if found is None:
            raise E3RGError(
                "item_not_found",
                f"there is no item {str(item)[:64]!r} in this conversation",
                param="item_id",
                status=404,
            )
        return found

    def add(self, item: Item, after: str | None = None) -> tuple[str | None, list[str]]:
        """Put an item in.

        Args:
            item: with an id that is not taken.
            after: id of the item before it, ``root`` for the beginning, None for the end.

        Returns:
            The id of the item before it, and the ids of the oldest items, which went for it.

        Raises:
            E3RGError: ``item_not_found`` or ``item_id_taken``.
        """
        if item.id in self._items:
            raise E3RGError(
                "item_id_taken",
                f"there is an item {item.id!r} already; give another id or none",
                param="item.id",
            )
        before = self.last if after is None else None
        if after is None or after == self.last:
            self._items[item.id] = item
            before = after or before
        else:
            if after != "root":
                before = self.get(after).id
            order = list(self._items.values())
            place = 0 if before is None else list(self._items).index(before) + 1
            order.insert(place, item)
            self._items = {each.id: each for each in order}
        kept = _MAX_PICTURES
        for newest in reversed(self._items.values()):
            kept -= len(newest.pictures)
            if kept < 0:
                newest.forget_pictures()
        gone = [each for each in self._items if each != item.id]
        gone = gone[: max(len(self._items) - MAX_ITEMS, 0)]
        for each in gone:
            del self._items[each]
        return before, gone

    def remove(self, item: object) -> Item:
        """Take an item out.

        Raises:
            E3RGError: ``item_not_found``.
        """
        found = self.get(item)
        del self._items[found.id]
        return found


def pending(items: list[Item]) -> list[Item]:
    """The user's items that no reply has followed."""
    start = len(items)
    while start and items[start - 1].role != "assistant":
        start -= 1
    return [item for item in items[start:] if item.role == "user"]


def lines(items: list[Item]) -> list[Message]:
    """Items as lines of a conversation, without system messages and empty items."""
    return [Message(item.role, item.text) for item in items if item.role != "system" and item.text]
