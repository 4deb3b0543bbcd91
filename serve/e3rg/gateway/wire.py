"""The native protocol's JSON: one small function for each thing that is sent."""

from __future__ import annotations

import base64
from typing import Any

from e3rg.emotions.types import Delivery, Emotion
from e3rg.identities.types import Identity
from e3rg.records.turns import TurnRecord
from e3rg.stages.memory.engine import Retrieval
from e3rg.stages.understanding.engine import Transcript
from e3rg.turn.events import Usage


def emotion_json(emotion: Emotion, delivery: Delivery) -> dict[str, Any]:
    """What the speaker feels, and what the listener shows."""
    return {
        "label": emotion.label,
        "category": emotion.category.value,
        "intensity": round(emotion.intensity, 3),
        "confidence": round(emotion.confidence, 3),
        "categories": {key.value: round(value, 4) for key, value in emotion.categories.items()},
        "modalities": {
            name: {
                "confidence": round(score.confidence, 3),
                "categories": {key.value: round(v, 4) for key, v in score.categories.items()},
            }
            for name, score in emotion.modalities.items()
        },
        "listener": {
            "expression": delivery.expression.value,
            "intensity": round(delivery.intensity, 3),
        },
    }


def memory_json(retrieval: Retrieval) -> dict[str, Any]:
    """What the reply's prompt holds from memory."""
    return {
        "exemplars": [
            {
                "id": exemplar.id,
                "emotion": exemplar.emotion,
                "situation": exemplar.situation,
                "similarity": round(exemplar.similarity, 4),
            }
            for exemplar in retrieval.exemplars
        ],
        "episodes": [
            {
                "id": episode.id,
                "emotion": episode.emotion,
                "text": episode.text,
                "created": episode.created,
                "similarity": round(episode.similarity, 4),
            }
            for episode in retrieval.episodes
        ],
    }


def transcript_json(transcript: Transcript) -> dict[str, Any]:
    """What was heard."""
    return {
        "text": transcript.text,
        "language": transcript.language,
        "confidence": round(transcript.confidence, 3),
        "segments": [
            {"text": s.text, "start": round(s.start, 3), "end": round(s.end, 3)}
            for s in transcript.segments
        ],
    }


def usage_json(usage: Usage) -> dict[str, Any]:
    """What a turn spent."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "audio_seconds_in": round(usage.audio_seconds_in, 6),
        "audio_seconds_out": round(usage.audio_seconds_out, 6),
        "video_frames": usage.video_frames,
    }


def identity_json(identity: Identity) -> dict[str, Any]:
    """A listener."""
    return {
        "id": identity.id,
        "object": "identity",
        "name": identity.name,
        "gender": identity.gender,
        "age": identity.age,
        "voice": identity.voice,
        "profile": identity.profile,
        "portrait": f"/v1/identities/{identity.id}/portrait",
    }


def turn_json(record: TurnRecord, has_clip: bool) -> dict[str, Any]:
    """A turn that has ended."""
    return {
        "id": record.id,
        "object": "turn",
        "conversation": record.conversation,
        "user": record.user,
        "identity": record.identity,
        "created": round(record.created, 3),
        "status": record.status,
        "input": {"text": record.text},
        "text": record.reply,
        **record.detail,
        "video": f"/v1/turns/{record.id}/video" if has_clip else None,
    }


def encoded(data: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(data).decode("ascii")
