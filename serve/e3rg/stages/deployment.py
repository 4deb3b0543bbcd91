"""What every stage's deployment shares: loading its engine, and calling it with a deadline.

A stage's ``deployment.py`` holds two small classes: the deployment, which runs an engine in a Ray
Serve replica, and the client, which is the stage's Protocol over a handle. The conductor cannot
tell a client from an engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ray import serve
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RayServeException
from ray.serve.handle import DeploymentHandle

from e3rg import attribution, deadline
from e3rg.attribution import Hop
from e3rg.config import StageConfig
from e3rg.engines import load_engine
from e3rg.errors import E3RGError
from e3rg.local_context import engine_context

log = logging.getLogger(__name__)


class StageDeployment:
    """Base of the stages' deployments: one engine, and how many calls it is working on."""

    def __init__(self, registry: Mapping[str, str], config: StageConfig) -> None:
        self.engine = load_engine(registry, config.engine, engine_context(), config.options)
        self._active = 0

    async def activity(self) -> dict[str, int]:
        """Calls in work, threads and tasks: what must return to rest when nobody listens."""
        return {
            "active": self._active,
            "threads": threading.active_count(),
            "tasks": len(asyncio.all_tasks()),
        }

    async def call(self, method: str, hop: Hop, *arguments: Any) -> Any:
        """Call a method of the engine by a deadline."""
        attribution.adopt(hop.attribution)
        with self._counted():
            async with deadline.bounded(hop.due):
                return await getattr(self.engine, method)(*arguments)

    async def iterate(
        self, source: AsyncGenerator[Any, None], hop: Hop
    ) -> AsyncGenerator[Any, None]:
        """Pass on an engine's stream; it is closed with this one, or at the deadline."""
        # Serve runs each call in a task of its own.
        attribution.adopt(hop.attribution)
        with self._counted():
            async with contextlib.aclosing(source):
                while True:
                    # A context variable set across a yield would leak into the consumer's context.
                    async with deadline.bounded(hop.due):
                        try:
                            item = await anext(source)
                        except StopAsyncIteration:
                            return
                    yield item

    @contextlib.contextmanager
    def _counted(self) -> Any:
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1

    def __del__(self) -> None:
        engine = getattr(self, "engine", None)
        if engine is not None:
            engine.close()


def bind(
    deployment: type[StageDeployment], name: str, config: StageConfig, drain_s: float
) -> serve.Application:
    """A stage's deployment with the replicas and resources of its configuration.

    Args:
        deployment: the stage's class.
        name: the stage.
        config: its part of the profile.
        drain_s: longer than the longest stream, so that an update cuts none.
    """
    actor: dict[str, Any] = {"num_cpus": config.cpus, "num_gpus": config.gpus}
    if config.pool is not None:
        # A sliver: the resource pins the replica to its pool and does not count it.
        actor["resources"] = {config.pool: 0.001}
    options = serve.deployment(
        name=name,
        num_replicas=config.replicas,
        max_ongoing_requests=config.max_ongoing_requests,
        max_queued_requests=config.max_queued_requests,
        ray_actor_options=actor,
        graceful_shutdown_timeout_s=drain_s,
        # An engine that cannot load says so soon; Serve would try 20 times.
        max_constructor_retry_count=2,
        health_check_period_s=5,
        health_check_timeout_s=30,
    )(deployment)
    return options.bind(config)


class StageClient:
    """Base of the stages' clients.

    Args:
        handle: handle of the stage's deployment.
        stage: its name, for messages.
    """

    def __init__(self, handle: DeploymentHandle[Any], stage: str) -> None:
        self._handle = handle
        self._streaming = handle.options(stream=True)
        self._stage = stage

    async def _call(self, method: str, *arguments: Any) -> Any:
        return await self._await(self._handle.call.remote(method, attribution.hop(), *arguments))

    async def _await(self, response: Any) -> Any:
        try:
            return await response
        except asyncio.CancelledError:
            response.cancel()
            raise
        except (RayError, RayServeException) as error:
            raise self._translate(error) from error

    async def _stream(self, method: str, argument: Any) -> AsyncGenerator[Any, None]:
        response = getattr(self._streaming, method).remote(argument, attribution.hop())
        try:
            async for item in response:
                yield item
        except (RayError, RayServeException) as error:
            raise self._translate(error) from error
        finally:
            response.cancel()

    def _translate(self, error: Exception) -> Exception:
        cause: BaseException | None = error
        if isinstance(error, RayTaskError):
            cause = error.cause
        if isinstance(cause, E3RGError):
            return cause
        if isinstance(error, BackPressureError):
            return E3RGError(
                "overloaded",
                f"the {self._stage} stage has no room; try again shortly",
                status=503,
                retry_after=2,
            )
        if isinstance(error, RayActorError | DeploymentUnavailableError):
            return E3RGError(
                f"{self._stage}_unavailable",
                f"the {self._stage} stage is not running; it is restarted, try again shortly",
                status=503,
                retry_after=5,
            )
        log.error("%s failed", self._stage, exc_info=error)
        return E3RGError(
            f"{self._stage}_failed", f"the {self._stage} stage failed on this request", status=500
        )
