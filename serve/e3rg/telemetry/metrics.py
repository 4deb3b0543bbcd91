"""Prometheus metrics of the gateway (https://prometheus.io/docs/practices/naming/).

No label takes a value that a caller can choose freely.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

_SECONDS = (0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 13, 20, 30, 60, 120)

TURNS = Counter("e3rg_turns_total", "Turns by how they ended.", ["status"], registry=REGISTRY)
ACTIVE = Gauge("e3rg_turns_active", "Turns that hold a place.", registry=REGISTRY)
REJECTED = Counter(
    "e3rg_turns_rejected_total", "Turns refused before they began.", ["code"], registry=REGISTRY
)
MILESTONE = Histogram(
    "e3rg_turn_milestone_seconds",
    "Seconds from a turn's start to each milestone.",
    ["milestone"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
CANCEL_TO_IDLE = Histogram(
    "e3rg_cancel_to_idle_seconds",
    "Seconds from a client's leaving until no stage works for it.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5),
    registry=REGISTRY,
)
DEGRADED = Counter(
    "e3rg_degraded_total", "Replies that gave less than was asked.", ["wanted"], registry=REGISTRY
)
SKEW = Histogram(
    "e3rg_av_skew_seconds",
    "Largest distance between sound and picture in a finished clip.",
    buckets=(0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32),
    registry=REGISTRY,
)
TOKENS = Counter("e3rg_tokens_total", "Language model tokens.", ["kind"], registry=REGISTRY)
AUDIO_SECONDS = Counter(
    "e3rg_audio_seconds_total", "Seconds of sound heard and spoken.", ["kind"], registry=REGISTRY
)
VIDEO_FRAMES = Counter("e3rg_video_frames_total", "Frames rendered.", registry=REGISTRY)
