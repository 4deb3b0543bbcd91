"""Admission on Ray Serve: one replica for the whole system, and what gateways reach it through."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from typing import Any

from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from e3rg.admission import answers
from e3rg.admission.contracts import HEARTBEATS, Ask, Decision, Outcome, Refusal, Stats
from e3rg.admission.controller import AdmissionController
from e3rg.config import AdmissionConfig, database_url
from e3rg.records.database import Database
from e3rg.records.ledger import UsageLedger
from e3rg.records.usage import UsageRow

log = logging.getLogger(__name__)

_GRACE_S = 2.0
_PAUSE_S = 0.25
_CALL_S = 5.0
_MOST_CALLS = 20_000
"""Far above what can wait: it is the controller that refuses, and says why."""


class AdmissionDeployment:
    """The one controller. It starts with nothing, and gateways tell it what they hold."""

    def __init__(self, config: AdmissionConfig) -> None:
        database = Database(database_url())
        database.create(UsageRow)
        beat = config.lease_s / HEARTBEATS
        self._controller = AdmissionController(config, UsageLedger(database), adopt_s=2 * beat)

    async def admit(self, ask: Ask) -> Decision:
        """See Admission.admit."""
        return await self._controller.admit(ask)

    async def settle(self, lease: str) -> None:
        """See Admission.settle."""
        await self._controller.settle(lease)

    async def renew(self, holder: str, held: Sequence[tuple[Ask, int]]) -> None:
        """See Admission.renew."""
        await self._controller.renew(holder, held)

    async def stats(self) -> Stats:
        """See Admission.stats."""
        return await self._controller.stats()

    async def process(self) -> int:
        """Id of this replica's process."""
        return os.getpid()

    async def check_health(self) -> None:
        """Called by Serve; a replica that raises is replaced."""
        self._controller.check()


def bind(config: AdmissionConfig) -> serve.Application:
    """The deployment, with the room that the configuration says."""
    deployment = serve.deployment(
        name="admission",
        # One: with more, every limit would be multiplied.
        num_replicas=1,
        max_ongoing_requests=_MOST_CALLS,
        max_queued_requests=_MOST_CALLS,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=_CALL_S,
        max_constructor_retry_count=2,
        # Nothing can begin while it is away, so that it is missed soon.
        health_check_period_s=1,
        health_check_timeout_s=10,
    )(AdmissionDeployment)
    return deployment.bind(config)


class AdmissionClient:
    """Implements ``Admission`` (contracts.py) over a handle.

    Args:
        handle: of the deployment.
    """

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle = handle

    async def admit(self, ask: Ask) -> Decision:
        """Wait for an answer for as long as the ask may; while admission is restarted, ask again.

        What was held for an earlier try of the same ask is given to the later one.
        """
        end = time.monotonic() + ask.queue_s + _GRACE_S
        while True:
            try:
                async with asyncio.timeout(end - time.monotonic()):
                    decision: Decision = await self._await(self._handle.admit.remote(ask))
            except TimeoutError:
                return answers.unavailable("does not answer")
            except (RayError, RayServeException) as error:
                log.warning("admission does not answer: %s", type(error).__name__)
                if time.monotonic() + _PAUSE_S >= end:
                    return answers.unavailable("is being restarted")
                await asyncio.sleep(_PAUSE_S)
                continue
            if isinstance(decision, Refusal) and decision.outcome is Outcome.CANCELLED:
                # Nobody has left: the earlier try of this ask was in the way.
                return answers.unavailable("was restarted")
            return decision

    async def settle(self, lease: str) -> None:
        """See Admission.settle.

        Raises:
            RayError, RayServeException, TimeoutError: it was not heard.
        """
        await self._bounded(self._handle.settle.remote(lease))

    async def renew(self, holder: str, held: Sequence[tuple[Ask, int]]) -> None:
        """See Admission.renew; raises as ``settle``."""
        await self._bounded(self._handle.renew.remote(holder, held))

    async def stats(self) -> Stats:
        """See Admission.stats; raises as ``settle``."""
        found: Stats = await self._bounded(self._handle.stats.remote())
        return found

    async def _bounded(self, response: Any) -> Any:
        async with asyncio.timeout(_CALL_S):
            return await self._await(response)

    async def _await(self, response: Any) -> Any:
        try:
            return await response
        except asyncio.CancelledError:
            response.cancel()
            raise
