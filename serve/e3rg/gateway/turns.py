"""Runs turns for every protocol: a bounded number at once, each recorded however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import av

from e3rg.admission.contracts import Priority
from e3rg.errors import E3RGError
from e3rg.gateway.admitting import Admitter
from e3rg.gateway.places import Place, Places
from e3rg.gateway.wire import emotion_json, memory_json, usage_json
from e3rg.media.clips import ClipStore
from e3rg.media.mux import write_mp4
from e3rg.media.probe import measure_skew
from e3rg.media.types import Pcm, VideoPacket
from e3rg.records.turns import TurnRecord, TurnStore
from e3rg.telemetry import metrics
from e3rg.turn.conductor import Turn
from e3rg.turn.events import Degraded, TurnCompleted, TurnEvent, TurnFailed, VideoFrames
from e3rg.turn.request import TurnRequest
from e3rg.turn.state import Stages

log = logging.getLogger(__name__)

_CLOSE_S = 30.0


@dataclass(slots=True)
class Outcome:
    """What a turn left behind, for answers that are not streamed.

    Attributes:
        record: what was (to be) recorded.
        clip: the finished clip, if there is one.
        fault: why the clip or the record could not be stored.
        settled: set when no stage works for the turn any more and it is recorded.
    """

    record: TurnRecord | None = None
    clip: Path | None = None
    fault: E3RGError | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class TurnRunner:
    """Runs turns.

    Args:
        stages: where the work is done.
        turns: where turns are recorded.
        clips: where finished replies are kept.
        places: turns at once in this replica; one more is refused with ``overloaded``.
        admitter: gives leases, over all replicas.
    """

    def __init__(
        self,
        stages: Stages,
        turns: TurnStore,
        clips: ClipStore,
        places: int,
        admitter: Admitter,
    ) -> None:
        self._stages = stages
        self._admitter = admitter
        self._turns = turns
        self._clips = clips
        self._places = Places(places, metrics.ACTIVE.set)
        self._running: set[Turn] = set()
        self._held: set[asyncio.Task[Any]] = set()

    def take(self) -> Place:
        """Take a place, before any costly work is done for a turn.

        Raises:
            E3RGError: ``overloaded`` (503).
        """
        return self._places.take()

    @property
    def spare(self) -> bool:
        """Whether work that nobody waits for may begin: it never takes the last of several."""
        return self._places.taken < max(self._places.limit - 1, 1)

    async def run(
        self,
        request: TurnRequest,
        place: Place,
        outcome: Outcome | None = None,
        clip_at: Path | None = None,
        priority: Priority | None = None,
    ) -> AsyncGenerator[TurnEvent, None]:
        """Run a turn once there is room for it.

        Closing the generator cancels it; its place is given back at its end. The last event is sent
        after the clip and the record are stored, so that both can be read as soon as it is seen.

        Args:
            request: what is asked.
            place: the place that it runs on.
            outcome: filled with what it leaves behind.
            clip_at: where the clip is kept; otherwise among those of all turns, of which the
                newest are kept.
            priority: its class; the tenant's own if None.

        Raises:
            E3RGError: before the first event, as Admitter.turn.
        """
        outcome = outcome or Outcome()
        place.use()
        try:
            request = await self._admitter.turn(request, place, priority)
        except BaseException:
            place.release()
            outcome.settled.set()
            raise
        turn = Turn(self._stages, request)
        clip = _Clip(clip_at)
        finishing: asyncio.Task[None] | None = None
        self._running.add(turn)
        try:
            async for event in turn.events():
                clip.take(event)
                if isinstance(event, TurnCompleted | TurnFailed):
                    failure = event.error if isinstance(event, TurnFailed) else None
                    finishing = self._hold(self._finish(turn, clip, place, outcome, failure))
                    # Shielded: what was made is recorded, also if the client leaves just now.
                    await asyncio.shield(finishing)
                    if outcome.fault is not None:
                        fault = outcome.fault
                        yield Degraded("clip", "none", fault.code, fault.message)
                yield event
        finally:
            turn.cancel()
            if finishing is None:
                # Not awaited here: the caller's scope is being cancelled, and would cancel the
                # waiting too.
                self._hold(self._abandon(turn, clip, place, outcome))

    async def close(self) -> None:
        """Stop all turns and wait for what they leave behind."""
        for turn in tuple(self._running):
            turn.cancel()
        while self._held:
            await asyncio.wait(tuple(self._held), timeout=_CLOSE_S)

    def _hold(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._held.add(task)
        task.add_done_callback(self._held.discard)
        return task

    async def _abandon(self, turn: Turn, clip: _Clip, place: Place, outcome: Outcome) -> None:
        left = time.monotonic()
        await turn.closed()
        metrics.CANCEL_TO_IDLE.observe(time.monotonic() - left)
        await self._finish(turn, clip, place, outcome, None)

    async def _finish(
        self,
        turn: Turn,
        clip: _Clip,
        place: Place,
        outcome: Outcome,
        failure: E3RGError | None,
    ) -> None:
        try:
            await turn.closed()
            _measure(turn)
            if turn.state.status == "completed" and clip.packets:
                await self._guarded(outcome, self._keep(turn.request.id, clip, outcome))
            outcome.record = _record(turn, failure or outcome.fault)
            await self._guarded(outcome, self._turns.save(outcome.record))
        finally:
            self._running.discard(turn)
            place.release()
            outcome.settled.set()

    async def _guarded(self, outcome: Outcome, storing: Coroutine[Any, Any, None]) -> None:
        """Store something; a failure is kept for the caller and costs nothing else."""
        try:
            await storing
        except E3RGError as error:
            outcome.fault = outcome.fault or error
            log.error("not stored: %s", error.message)
        except Exception as error:
            log.error("not stored", exc_info=error)
            outcome.fault = outcome.fault or E3RGError(
                "storage_failed", "the server could not store the reply", status=500
            )

    async def _keep(self, turn: str, clip: _Clip, outcome: Outcome) -> None:
        path = clip.path or self._clips.path(turn)
        sound = Pcm(b"".join(clip.audio), clip.rate)
        await asyncio.to_thread(write_mp4, clip.packets, sound, path)
        outcome.clip = path
        if clip.path is None:
            await asyncio.to_thread(self._clips.prune)
        self._hold(asyncio.to_thread(_measure_skew, path))


def _measure_skew(path: Path) -> None:
    # The clip may be pruned by now; a measurement is no reason to fail.
    with contextlib.suppress(OSError, av.error.FFmpegError):
        metrics.SKEW.observe(measure_skew(path).skew_ms / 1000)


class _Clip:
    """The encoded reply so far; a minute takes about 3 MB."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
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
        "finish_reason": state.finish_reason,
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
        created=turn.started,
        user=request.user,
        identity=request.identity.id,
        status=state.status,
        text=state.text or request.text or "",
        reply=state.reply,
        detail=detail,
    )
