"""Readiness: green only while a real turn can be served."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from e3rg.emotions.types import Delivery, Expression
from e3rg.errors import E3RGError
from e3rg.messages import Message
from e3rg.stages.dialogue.engine import DialogueRequest
from e3rg.stages.memory.engine import MemoryQuery
from e3rg.stages.speech.engine import SpeechRequest
from e3rg.stages.understanding.engine import Utterance
from e3rg.turn.state import Stages

_TIMEOUT_S = 10.0
_FRESH_S = 10.0


@dataclass(frozen=True, slots=True)
class Report:
    """One check of all stages; a stage's value is ``ok`` or what is wrong with it."""

    stages: dict[str, str]

    @property
    def ready(self) -> bool:
        """Whether every stage answered."""
        return all(state == "ok" for state in self.stages.values())

    def to_json(self) -> dict[str, Any]:
        """The body of /readyz."""
        return {"status": "ready" if self.ready else "not_ready", "stages": self.stages}


class Health:
    """Checks the stages with the smallest real work, at most once in a few seconds.

    Args:
        stages: what to check.
    """

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._report: Report | None = None
        self._checked = 0.0
        self._lock = asyncio.Lock()

    async def check(self) -> Report:
        """A report that is at most a few seconds old."""
        async with self._lock:
            if self._report is None or time.monotonic() - self._checked > _FRESH_S:
                self._report = await self._measure()
                self._checked = time.monotonic()
            return self._report

    async def _measure(self) -> Report:
        checks = {
            "understanding": self._stages.understanding.recognize(Utterance("Hello.")),
            "memory": self._stages.memory.retrieve(MemoryQuery("Hello.", exemplars=1)),
            "dialogue": self._dialogue(),
            "speech": self._stages.speech.synthesize(
                SpeechRequest("", "af_heart", Delivery(Expression.NEUTRAL, 0.0))
            ),
            "avatar": self._avatar(),
        }
        states = await asyncio.gather(*(_state(check) for check in checks.values()))
        return Report(dict(zip(checks, states, strict=True)))

    async def _dialogue(self) -> None:
        deltas = self._stages.dialogue.stream(
            DialogueRequest((Message("user", "Hello."),), max_tokens=1)
        )
        async for _ in deltas:
            pass

    async def _avatar(self) -> None:
        try:
            await self._stages.avatar.inspect(b"")
        except E3RGError as error:
            if error.code != "portrait_unreadable":  # which is the right answer to no bytes
                raise


async def _state(check: Any) -> str:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await check
    except TimeoutError:
        return f"no answer within {_TIMEOUT_S:.0f} s"
    except E3RGError as error:
        return error.code
    return "ok"
