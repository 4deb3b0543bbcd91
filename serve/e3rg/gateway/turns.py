"""Runs turns for every protocol: a bounded number at once, each recorded however it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from e3rg.errors import E3RGError
from e3rg.gateway.wire import emotion_json, memory_json, usage_json
from e3rg.media.clips import ClipStore
from e3rg.media.mux import write_mp4
from e3rg.media.probe import measure_skew
from e3rg.media.types import Pcm, VideoPacket
from e3rg.records.turns import TurnRecord, TurnStore
from e3rg.telemetry import metrics
from e3rg.turn.conductor import Turn
from e3rg.turn.events import TurnCompleted, TurnEvent, TurnFailed, VideoFrames
from e3rg.turn.request import TurnRequest
from e3rg.turn.state import Stages

log = logging.getLogger(__name__)


class TurnRunner:
    """Runs turns.

    Args:
        stages: where the work is done.
        turns: where turns are recorded.
        clips: where finished replies are kept.
        places: turns at once; one more is refused with ``overloaded``.
    """

    def __init__(self, stages: Stages, turns: TurnStore, clips: ClipStore, places: int) -> None:
        self._stages = stages
        self._turns = turns
        self._clips = clips
        self._places = places
        self._active = 0
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def active(self) -> int:
        """Turns that hold a place."""
        return self._active

    async def run(self, request: TurnRequest) -> AsyncGenerator[TurnEvent, None]:
        """Run a turn; closing the generator cancels it.

        The last event is sent after the clip and the record are stored, so that both can be read
        as soon as it is seen.

        Raises:
            E3RGError: ``overloaded``, before the first event.
        """
        if self._active >= self._places:
            metrics.REJECTED.labels("overloaded").inc()
            raise E3RGError(
                "overloaded",
                f"all {self._places} places are taken; try again shortly",
                status=503,
                retry_after=5,
            )
        self._active += 1
        metrics.ACTIVE.set(self._active)
        turn = Turn(self._stages, request)
        clip = _Clip()
        failure: E3RGError | None = None
        finished = False
        try:
            async for event in turn.events():
                clip.take(event)
                if isinstance(event, TurnFailed):
                    failure = event.error
                if isinstance(event, TurnCompleted | TurnFailed):
                    finished = True
                    await self._finish(turn, clip, failure)
                yield event
        finally:
            turn.cancel()
            if not finished:
                # Not awaited here: the caller's scope is being cancelled, and would cancel the
                # waiting too. The task is held until it ends.
                self._hold(asyncio.create_task(self._abandon(turn, clip)))

    async def drain(self) -> None:
        """Wait for abandoned turns to end."""
        if self._closing:
            await asyncio.wait(set(self._closing))

    async def _abandon(self, turn: Turn, clip: _Clip) -> None:
        left = time.monotonic()
        await turn.closed()
        metrics.CANCEL_TO_IDLE.observe(time.monotonic() - left)
        await self._finish(turn, clip, None)

    async def _finish(self, turn: Turn, clip: _Clip, failure: E3RGError | None) -> None:
        try:
            await turn.closed()
            _measure(turn)
            if clip.packets and turn.state.status == "completed":
                path = await asyncio.to_thread(self._keep, turn.request.id, clip)
                self._hold(asyncio.create_task(asyncio.to_thread(_measure_skew, path)))
            await self._turns.save(_record(turn, failure))
        except E3RGError as error:
            log.error("turn %s is not recorded: %s", turn.request.id, error.message)
        finally:
            self._active -= 1
            metrics.ACTIVE.set(self._active)

    def _hold(self, task: asyncio.Task[None]) -> None:
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _keep(self, turn: str, clip: _Clip) -> Path:
        path = self._clips.path(turn)
        write_mp4(clip.packets, Pcm(b"".join(clip.audio), clip.rate), path)
        self._clips.prune()
        return path


def _measure_skew(path: Path) -> None:
    metrics.SKEW.observe(measure_skew(path).skew_ms / 1000)


class _Clip:
    """The encoded reply so far; a minute takes about 3 MB."""

    def __init__(self) -> None:
        self.packets: list[VideoPacket] = []
        self.audio: list[bytes] = []
        self.rate = 0

    def take(self, event: TurnEvent) -> None:
        if isinstance(event, VideoFrames):
            self.packets += event.packets
            self.audio.append(event.audio.data)
            self.rate = event.audio.sample_rate


def _measure(turn: Turn) -> None:
    state = turn.state
    metrics.TURNS.labels(state.status).inc()
    for milestone, seconds in state.timings.items():
        metrics.MILESTONE.labels(milestone).observe(seconds)
    for degraded in state.degraded:
        metrics.DEGRADED.labels(degraded.wanted).inc()
    metrics.TOKENS.labels("prompt").inc(state.usage.prompt_tokens)
    metrics.TOKENS.labels("completion").inc(state.usage.completion_tokens)
    metrics.AUDIO_SECONDS.labels("in").inc(state.usage.audio_seconds_in)
    metrics.AUDIO_SECONDS.labels("out").inc(state.usage.audio_seconds_out)
    metrics.VIDEO_FRAMES.inc(state.usage.video_frames)


def _record(turn: Turn, failure: E3RGError | None) -> TurnRecord:
    request, state = turn.request, turn.state
    detail: dict[str, Any] = {
        "usage": usage_json(state.usage),
        "timings": state.timings,
        "memory": memory_json(state.retrieval),
        "degraded": [asdict(degraded) for degraded in state.degraded],
        "error": failure.to_json()["error"] if failure else None,
        "emotion": None,
    }
    if state.emotion is not None and state.delivery is not None:
        detail["emotion"] = emotion_json(state.emotion, state.delivery)
    return TurnRecord(
        id=request.id,
        conversation=request.conversation,
        user=request.user,
        identity=request.identity.id,
        status=state.status,
        text=state.text or request.text or "",
        reply=state.reply,
        detail=detail,
    )
