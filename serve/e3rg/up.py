"""``e3rg up``: starts Ray on this machine, deploys a profile, and stays until it is stopped."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import ray
from ray import serve
from ray.serve.config import HTTPOptions
from ray.serve.schema import LoggingConfig

from e3rg.app import build
from e3rg.config import ConfigError, Profile

APPLICATION = "e3rg"
_OBJECT_STORE_BYTES = 200_000_000
"""Ray's shared memory; media crosses handles inline, so little is needed."""


def check_port(host: str, port: int) -> None:
    """Make sure that the port is free.

    Raises:
        ConfigError: if it is not.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"port {port} on {host} cannot be used ({error.strerror}): stop what runs there, "
                "or choose another with --port"
            ) from error


@contextlib.contextmanager
def running(profile: Profile, report: Callable[[str, str], None]) -> Iterator[str]:
    """Run a profile on a Ray cluster of its own, on this machine.

    Args:
        profile: what to run.
        report: called with a deployment's name and its status, whenever that changes.

    Yields:
        The base address, e.g. ``http://127.0.0.1:8000``.
    """
    host, port = profile.gateway.host, profile.gateway.port
    check_port(host, port)
    # No usage report leaves the machine, and one stage's log lines are not merged with another's.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    ray.init(
        address="local",
        include_dashboard=False,
        object_store_memory=_OBJECT_STORE_BYTES,
        log_to_driver=os.environ.get("E3RG_RAY_LOGS") == "1",
        logging_level=logging.ERROR,
    )
    try:
        serve.start(
            http_options=HTTPOptions(host=host, port=port),
            logging_config=LoggingConfig(log_level="WARNING"),
        )
        stop = threading.Event()
        watcher = threading.Thread(target=_watch, args=(report, stop), daemon=True)
        watcher.start()
        try:
            serve.run(
                build(profile),
                name=APPLICATION,
                route_prefix="/",
                logging_config=LoggingConfig(log_level="WARNING"),
            )
        finally:
            stop.set()
            watcher.join()
        yield f"http://{host}:{port}"
    finally:
        with contextlib.suppress(Exception):
            serve.shutdown()  # type: ignore[no-untyped-call]
        ray.shutdown()


def wait_for_signal() -> None:
    """Return when the process is asked to end (SIGINT or SIGTERM)."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(timeout=1):
        pass


def _watch(report: Callable[[str, str], None], stop: threading.Event) -> None:
    seen: dict[str, str] = {}
    while not stop.is_set():
        with contextlib.suppress(Exception):  # the controller may not answer yet
            application = serve.status().applications.get(APPLICATION)
            for name, status in (application.deployments if application else {}).items():
                state = str(status.status.value)
                if seen.get(name) != state:
                    seen[name] = state
                    report(name, state)
        stop.wait(0.5)
