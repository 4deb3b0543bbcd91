"""``e3rg doctor``: what this machine lacks for a profile, and how to mend it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

import httpx
import typer
from rich.console import Console

from e3rg.config import ConfigError, Profile, data_dir, load_profile, model_dir
from e3rg.listen import base_url, free_port
from e3rg.models.store import ModelStore

State = Literal["ok", "warn", "fail"]

_PACKAGES = ("ray.serve", "fastapi", "uvicorn", "numpy", "av", "cv2", "soxr", "sqlalchemy")
_ENGINE_PACKAGES: dict[tuple[str, str], tuple[str, ...]] = {
    ("understanding", "local"): ("onnxruntime", "tokenizers", "faster_whisper", "ai_edge_litert"),
    ("memory", "milvus"): ("pymilvus", "onnxruntime", "tokenizers"),
    ("dialogue", "llama"): ("xllamacpp",),
    ("dialogue", "openai"): ("openai",),
    ("speech", "kokoro"): ("onnxruntime", "onnx"),
    ("avatar", "blendshape"): ("ai_edge_litert",),
}
_IMPORT_S = 120

# The local profile as a whole must fit 4 GB; below half of that it cannot start.
_MEMORY_WARN, _MEMORY_FAIL = 4e9, 2e9
_DISK_WARN, _DISK_FAIL = 2e9, 0.5e9


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at.

    Attributes:
        name: what was looked at.
        state: ok; warn: it will run, but not well; fail: it cannot run.
        detail: what was found.
        mend: what to do about it; empty when ok.
    """

    name: str
    state: State
    detail: str
    mend: str = ""


def run_checks(profile: Profile) -> list[Check]:
    """Look at everything a profile needs; takes a few seconds and changes nothing."""
    checks: tuple[Callable[[], Check], ...] = (
        _python,
        lambda: _packages(profile),
        lambda: _models(profile),
        _data_folder,
        lambda: _disk("disk for models", model_dir(), _missing_bytes(profile)),
        lambda: _disk("disk for data", data_dir(), 0),
        _memory,
        _cores,
        lambda: _port(profile.gateway.host, profile.gateway.port),
        _h264,
    )
    return [check() for check in checks]


def doctor_command(
    profile: Annotated[str, typer.Option("--profile", "-p", help="name or YAML file")] = "local",
) -> None:
    """Say what this machine lacks and how to mend it; exit code 1 if the profile cannot run."""
    console = Console()
    try:
        checks = run_checks(load_profile(profile))
    except ConfigError as error:
        Console(stderr=True).print(f"error: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    colours = {"ok": "green", "warn": "yellow", "fail": "red"}
    for check in checks:
        console.print(f"[{colours[check.state]}]{check.state:5}[/]", end="")
        console.print(f"{check.name}: {check.detail}", markup=False, highlight=False)
        if check.mend:
            console.print(f"     -> {check.mend}", markup=False, highlight=False)
    if any(check.state == "fail" for check in checks):
        raise typer.Exit(1)


def _python() -> Check:
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] in {(3, 11), (3, 12)}:
        return Check("Python", "ok", found)
    mend = "install Python 3.11 or 3.12 and run make again"
    return Check("Python", "fail", f"{found}; 3.11 or 3.12 is needed", mend)


def _packages(profile: Profile) -> Check:
    wanted = list(_PACKAGES)
    for stage, config in profile.stages:
        wanted += _ENGINE_PACKAGES.get((stage, config.engine), ())
    wanted = list(dict.fromkeys(wanted))
    # In a process of its own: a library built for another processor ends it instead of raising.
    script = "import importlib, sys\nfor name in sys.argv[1:]:\n    print(name, flush=True)\n"
    script += "    importlib.import_module(name)\n"
    try:
        done = subprocess.run(
            [sys.executable, "-c", script, *wanted],
            capture_output=True,
            text=True,
            timeout=_IMPORT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Check("packages", "warn", f"importing took over {_IMPORT_S} s", "close other work")
    if done.returncode == 0:
        return Check("packages", "ok", f"{len(wanted)} import")
    named = [line for line in done.stdout.split() if line in wanted]
    culprit = named[-1] if named else "Python"
    why = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
    return Check(
        "packages", "fail", f"{culprit} does not import: {why[0]}", "make clean, then make run"
    )


def _model_profile(profile: Profile, store: ModelStore) -> str | None:
    # A profile of the user's own names no files; the graph asks for its engines' at start.
    return profile.name if profile.name in store.manifest.profiles else None


def _models(profile: Profile) -> Check:
    store = ModelStore(model_dir())
    name = _model_profile(profile, store)
    if name is None:
        return Check("models", "ok", f"the manifest has none for profile {profile.name}")
    states = list(store.verify(name))
    bad = [f"{status.file.name} ({status.state})" for status in states if status.state != "ok"]
    if bad:
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        return Check("models", "fail", ", ".join(bad[:3]) + more, "e3rg models pull")
    return Check("models", "ok", f"{len(states)} files in {store.root}, every sha256 right")


def _missing_bytes(profile: Profile) -> int:
    store = ModelStore(model_dir())
    name = _model_profile(profile, store)
    states = store.list(name) if name is not None else ()
    return sum(status.file.size for status in states if status.state != "ok")


def _data_folder() -> Check:
    folder = data_dir()
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        mend = f"remove the file {there}, or set E3RG_DATA to a folder"
        return Check("data folder", "fail", f"{folder}: {there} is not a folder", mend)
    try:
        # Where the folder is to be made; the file is gone at once.
        with tempfile.NamedTemporaryFile(dir=there, prefix=".doctor-") as file:
            file.write(b"e3rg")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        mend = f"make {folder} writable, or set E3RG_DATA to a folder that is"
        return Check("data folder", "fail", f"{folder}: {error.strerror}", mend)
    return Check(
        "data folder", "ok", f"{folder} is writable" if there == folder else f"{folder} can be made"
    )


def _disk(name: str, folder: Path, wanted: int) -> Check:
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free - wanted
    detail = f"{free / 1e9:.1f} GB free at {there}" + (" after the pull" if wanted else "")
    if free >= _DISK_WARN:
        return Check(name, "ok", detail)
    mend = "free some space, or set E3RG_MODELS and E3RG_DATA to folders on a larger disk"
    return Check(name, "warn" if free >= _DISK_FAIL else "fail", detail, mend)


def _memory() -> Check:
    limit = _memory_available()
    detail = f"{limit / 1e9:.1f} GB available"
    if limit >= _MEMORY_WARN:
        return Check("memory", "ok", detail)
    mend = "close other programs, or give the container or machine 4 GB"
    return Check("memory", "warn" if limit >= _MEMORY_FAIL else "fail", detail, mend)


def _memory_available() -> int:
    """Bytes that may still be used: of the machine, or of the container if that is less."""
    page = os.sysconf("SC_PAGE_SIZE")
    available = os.sysconf("SC_PHYS_PAGES") * page
    for line in (_read("/proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    limit, used = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
    if limit is not None and limit.isdecimal() and used is not None and used.isdecimal():
        available = min(available, int(limit) - int(used))
    return available


def _cores() -> Check:
    count: float
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        count = os.cpu_count() or 1
    quota, _, period = (_read("/sys/fs/cgroup/cpu.max") or "").partition(" ")
    if quota.isdecimal() and period.isdecimal():
        count = min(count, int(quota) / int(period))
    detail = f"{count:g} cores"
    if count >= 2:
        return Check("cores", "ok", detail)
    return Check("cores", "warn", detail, "use 2 or more: on one, speech is slower than real time")


def _port(host: str, port: int) -> Check:
    name = f"port {port}"
    if port == 0:
        return Check(name, "ok", "any free one will be used")
    try:
        free_port(host, port)
    except OSError as error:
        why = error.strerror
    else:
        return Check(name, "ok", f"free on {host}")
    try:
        if httpx.get(f"{base_url(host, port)}/healthz", timeout=2, trust_env=False).is_success:
            return Check(name, "ok", "a running e3rg (or something with its /healthz) has it")
    except (httpx.HTTPError, httpx.InvalidURL):
        pass
    mend = "stop the program that has it, or use another: --port, or gateway.port in the profile"
    return Check(name, "fail", f"{host}: {why}", mend)


def _h264() -> Check:
    mend = "make clean, then make run: PyAV's own wheel has libx264"
    try:
        import av

        codec = av.CodecContext.create("libx264", "w")
        assert isinstance(codec, av.VideoCodecContext)
        codec.width = codec.height = 64
        codec.pix_fmt = "yuv420p"
        codec.time_base = Fraction(1, 25)
        packets = [*codec.encode(av.VideoFrame(64, 64, "yuv420p")), *codec.encode(None)]
    except (ImportError, ValueError, OSError) as error:
        # PyAV's errors derive from ValueError and OSError.
        return Check("H.264 encoder", "fail", str(error), mend)
    if not packets:
        return Check("H.264 encoder", "fail", "libx264 gave nothing for a frame", mend)
    return Check("H.264 encoder", "ok", f"libx264 through PyAV {av.__version__}")


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return None
