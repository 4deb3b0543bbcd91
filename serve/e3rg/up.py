"""``e3rg up``: starts Ray on this machine, deploys a profile, and stays until it is stopped."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import ray
from ray import serve
from ray.exceptions import RayError
from ray.serve.config import HTTPOptions
from ray.serve.schema import LoggingConfig

from e3rg.app import build
from e3rg.config import ConfigError, Profile, model_dir
from e3rg.errors import E3RGError
from e3rg.listen import base_url, free_port
from e3rg.models.store import ModelStore

APPLICATION = "e3rg"
_OBJECT_STORE_BYTES = 200_000_000
"""Ray's shared memory. What is above 100 kB (sound, portraits, a second of video) crosses handles
through it and is dropped when it was read: this is far more than four turns hold at once."""
_HEALTH_S, _HEALTH_MISSES = 10.0, 3
_LAST_ERROR = re.compile(r"^(?:[\w.]*\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)


def check_models(profile: Profile) -> None:
    """Make sure that a shipped profile's model files are here, by presence and size.

    Raises:
        ConfigError: naming those that are not, and the command that gets them.
    """
    store = ModelStore(model_dir())
    if profile.name not in store.manifest.profiles:
        return  # one of the user's own: its engines ask for their files when they are loaded
    bad = [
        f"{each.file.name} ({each.state})"
        for each in store.list(profile.name)
        if each.state != "ok"
    ]
    if bad:
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        raise ConfigError(
            f"model files are not in {store.root}: {', '.join(bad[:3])}{more}; "
            f"run `e3rg models pull --profile {profile.name}`"
        )


@contextlib.contextmanager
def running(
    profile: Profile, report: Callable[[str, str], None], *, verbose: bool = False
) -> Iterator[str]:
    """Run a profile on a Ray cluster of its own, on this machine.

    Args:
        profile: what to run.
        report: called with a deployment's name and its status, whenever that changes.
        verbose: show the log of every replica.

    Yields:
        The base address, e.g. ``http://127.0.0.1:8000``.

    Raises:
        ConfigError: if the port cannot be had, a model file is missing, or a stage does not load.
        E3RGError: ``ray_failed`` if Ray does not start.
    """
    check_models(profile)
    host = profile.gateway.host
    try:
        port = free_port(host, profile.gateway.port)
    except OSError as error:
        raise ConfigError(
            f"port {profile.gateway.port} on {host} cannot be used ({error.strerror}): stop what "
            "runs there, or choose another with --port"
        ) from error
    # One stage's log lines are not merged with another's.
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    try:
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            log_to_driver=verbose,
            logging_level=logging.ERROR,
        )
    except Exception as error:  # Ray's own, for a node that does not come up, is a bare Exception
        ray.shutdown()
        raise E3RGError(
            "ray_failed",
            f"Ray did not start: {_first_line(error)} See `e3rg doctor`, or try again when "
            "the machine is less busy",
            status=503,
        ) from error
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
        except (RuntimeError, RayError) as error:
            raise ConfigError(_why_not_deployed(error)) from error
        finally:
            stop.set()
            watcher.join()
        yield base_url(host, port)
    finally:
        with contextlib.nullcontext() if verbose else _quiet():
            with contextlib.suppress(Exception):
                serve.shutdown()  # type: ignore[no-untyped-call]
            ray.shutdown()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Ray's words about its own end off the terminal; it writes to the descriptor itself."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def wait_for_signal(address: str) -> None:
    """Return when the process is asked to end (SIGINT or SIGTERM).

    Args:
        address: of the server, which is asked for its health meanwhile.

    Raises:
        E3RGError: ``server_died`` when it does not answer any more.
    """
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    misses, due = 0, time.monotonic() + _HEALTH_S
    # Short waits: a handler runs between them only.
    while not ended.wait(timeout=min(1.0, _HEALTH_S)):
        if time.monotonic() < due:
            continue
        misses = 0 if ray.is_initialized() and _healthy(address) else misses + 1
        # More than one, since Serve restarts what fails.
        if misses >= _HEALTH_MISSES and not ended.is_set():
            raise E3RGError(
                "server_died",
                f"{address} does not answer any more: start `e3rg up` again, with --verbose to "
                "see why it ended",
                status=503,
            )
        due = time.monotonic() + _HEALTH_S


def _healthy(address: str) -> bool:
    try:
        answer = httpx.get(f"{address}/healthz", timeout=_HEALTH_S, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.status_code < 500


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _why_not_deployed(error: Exception) -> str:
    """The message of the replica that failed, which Serve keeps with its deployment."""
    faults = []
    with contextlib.suppress(Exception):  # the controller may be what failed
        for name, status in serve.status().applications[APPLICATION].deployments.items():
            if fault := replica_fault(status.message):
                faults.append(f"{name}: {fault}")
    return "; ".join(faults) or f"the graph did not start: {_first_line(error)}"


def replica_fault(message: str) -> str:
    """What a deployment's message says of a failed replica: the last error of its traceback."""
    found = _LAST_ERROR.findall(message)
    if not found:
        return ""
    kind, text = found[-1]
    # Our own errors are sentences for people; of others, the name says more than the text.
    return text if kind in {"ConfigError", "E3RGError"} else f"{kind}: {text}"


def _watch(report: Callable[[str, str], None], stop: threading.Event) -> None:
    seen: dict[str, str] = {}
    while not stop.is_set():
        with contextlib.suppress(Exception):  # the controller may not answer yet
            application = serve.status().applications.get(APPLICATION)
            for name, status in (application.deployments if application else {}).items():
                state = str(status.status.value)
                # Serve tries a replica several times, which takes minutes; the reason is told now.
                if fault := replica_fault(status.message):
                    state += f": {fault}"
                if seen.get(name) != state:
                    seen[name] = state
                    report(name, state)
        stop.wait(0.5)
