"""Typed settings: a profile (YAML) says what runs; the environment says where it keeps things."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

PROFILES = Path(__file__).parent / "profiles"


class _Strict(BaseModel):
    # A misspelt setting must be an error, not a default that nobody chose.
    model_config = ConfigDict(extra="forbid", frozen=True)


class StageConfig(_Strict):
    """One stage: its engine and the replicas that run it."""

    engine: str = Field(description="name of an engine, see stages/<stage>/registry.py")
    model: str | None = Field(default=None, description="what API clients call its model")
    options: dict[str, Any] = Field(default_factory=dict, description="passed to the engine")
    replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    max_ongoing_requests: Annotated[int, Field(ge=1)] = 4
    max_queued_requests: Annotated[int, Field(ge=1)] = 32
    pool: str | None = Field(default=None, description="custom Ray resource to be pinned to")
    cpus: Annotated[float, Field(ge=0)] = 0
    gpus: Annotated[float, Field(ge=0)] = 0


class StagesConfig(_Strict):
    """The stages of the graph."""

    understanding: StageConfig
    memory: StageConfig
    dialogue: StageConfig
    speech: StageConfig
    avatar: StageConfig


class IceServer(_Strict):
    """A STUN or TURN server (RFC 8489, RFC 8656), in the fields of WebRTC's RTCIceServer."""

    urls: tuple[str, ...]
    username: str | None = None
    credential: str | None = None


class GatewayConfig(_Strict):
    """The ingress."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    replicas: Annotated[int, Field(ge=1)] = 1
    body_timeout_s: Annotated[
        float, Field(gt=0, description="a request's body arrives within so many seconds")
    ] = 60
    # More than admission has room for, waiting ones included: who waits fairly must not be refused
    # here by who came first. This bounds what a replica holds in memory.
    max_turns: Annotated[
        int, Field(ge=1, description="turns at once in one replica, with those that wait")
    ] = 96
    max_calls: Annotated[
        int, Field(ge=1, description="calls of single stages at once in one replica, likewise")
    ] = 96
    max_sessions: Annotated[
        int, Field(ge=1, description="realtime sessions at once in one replica")
    ] = 32
    ice_servers: tuple[IceServer, ...] = Field(
        default=(), description="STUN and TURN servers for WebRTC, told to browsers too"
    )
    ice_relay_only: Annotated[
        bool, Field(description="media pass the TURN server alone: no open UDP ports are needed")
    ] = False


class AccessConfig(_Strict):
    """Who may use the API."""

    mode: Annotated[
        Literal["open", "keys"],
        Field(description="open: everybody who reaches it, on loopback only; keys: API keys"),
    ] = "open"
    cache_s: Annotated[
        float, Field(ge=0, le=5, description="a revoked key works for so many seconds at most")
    ] = 2.0


class AdmissionConfig(_Strict):
    """What the system has room for, over all gateway replicas; see admission/contracts.py."""

    capacity: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=lambda: {
            "understanding": 16.0,
            "memory": 16.0,
            "dialogue": 8.0,
            "speech": 8.0,
            "avatar": 200.0,
        },
        description="pool: units in use at once; turns, voices and so on, frames per second for "
        "avatar",
    )
    max_queue: Annotated[int, Field(ge=0, description="requests that wait, of all tenants")] = 64
    queue_s: Annotated[float, Field(ge=0, description="the longest wait in the queue")] = 5.0
    degrade_s: Annotated[
        float, Field(ge=0, description="after so much waiting less is given, where allowed")
    ] = 1.0
    lease_s: Annotated[
        float, Field(gt=0, description="leases of a gateway replica that is silent end after")
    ] = 10.0
    max_tenants: Annotated[int, Field(ge=1, description="tenants whose state is kept")] = 10_000
    limits: dict[str, Any] = Field(
        default_factory=dict, description="of tenants that have none of their own, see Limits"
    )


class TelemetryConfig(_Strict):
    """What is told to whoever runs the system."""

    otlp_endpoint: Annotated[
        str | None, Field(description="base address of an OTLP/HTTP collector; None for no traces")
    ] = None
    trace_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    log_content: Annotated[
        bool, Field(description="words of speakers and listeners may be logged")
    ] = False
    max_tenant_labels: Annotated[
        int, Field(ge=0, description="tenants with metrics of their own; others are merged")
    ] = 20


class TurnConfig(_Strict):
    """Limits and defaults of one turn."""

    timeout_s: Annotated[float, Field(gt=0)] = 120
    max_text_chars: Annotated[int, Field(ge=1)] = 4000
    max_audio_s: Annotated[float, Field(gt=0)] = 120
    max_upload_bytes: Annotated[int, Field(ge=1)] = 50_000_000
    history_turns: Annotated[int, Field(ge=0)] = 6
    max_reply_tokens: Annotated[int, Field(ge=1)] = 120
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.3
    max_reply_sentences: Annotated[int, Field(ge=1)] = 4
    languages: tuple[str, ...] = ("en",)


class Profile(_Strict):
    """A whole system: what a profile file holds."""

    name: str
    gateway: GatewayConfig = GatewayConfig()
    access: AccessConfig = AccessConfig()
    admission: AdmissionConfig = AdmissionConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    turn: TurnConfig = TurnConfig()
    aliases: dict[str, str] = Field(
        default_factory=dict, description="further model names that clients may use"
    )
    stages: StagesConfig


class ConfigError(ValueError):
    """A profile that cannot be used; the message names the file, the field and the fault."""


def load_profile(name_or_path: str, overrides: Mapping[str, Any] | None = None) -> Profile:
    """Read a shipped profile by name, or any profile by path.

    Args:
        name_or_path: ``local``, or a path to a YAML file.
        overrides: merged over the file, section by section.

    Raises:
        ConfigError: if there is no such profile or it is not valid.
    """
    path = Path(name_or_path)
    if path.suffix not in {".yaml", ".yml"}:
        path = PROFILES / f"{name_or_path}.yaml"
    if not path.is_file():
        shipped = ", ".join(sorted(p.stem for p in PROFILES.glob("*.yaml")))
        raise ConfigError(f"no profile {name_or_path!r}: give a YAML file or one of {shipped}")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: a profile is a mapping with the keys name and stages")
    try:
        return Profile.model_validate(_merge(raw, overrides or {}))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
            for fault in error.errors()
        )
        raise ConfigError(f"{path}: {faults}") from error


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        merged[key] = _merge(old, value) if both and isinstance(old, Mapping) else value
    return merged


def data_dir() -> Path:
    """Where conversations, identities and memory are kept (``E3RG_DATA``)."""
    default = Path.home() / ".local" / "share" / "e3rg"
    return Path(os.environ.get("E3RG_DATA", default)).expanduser()


def database_url() -> str:
    """Where the records are (``E3RG_DATABASE``), as SQLAlchemy writes addresses."""
    folder = data_dir()
    folder.mkdir(parents=True, exist_ok=True)
    return os.environ.get("E3RG_DATABASE", f"sqlite:///{folder / 'e3rg.db'}")


def model_dir() -> Path:
    """Where model files are kept (``E3RG_MODELS``)."""
    default = Path.home() / ".cache" / "e3rg" / "models"
    return Path(os.environ.get("E3RG_MODELS", default)).expanduser()
