"""The native protocol's JSON: one small function for each thing that is sent."""

from __future__ import annotations

from typing import cast

from e3rg.emotions.types import Delivery, Emotion
from e3rg.gateway import shapes
from e3rg.identities.types import Identity
from e3rg.records.turns import TurnRecord
from e3rg.stages.memory.engine import Retrieval
from e3rg.stages.understanding.engine import Transcript
from e3rg.turn.events import Usage


def emotion_json(emotion: Emotion, delivery: Delivery) -> shapes.Emotion:
    """What the speaker feels, and what the listener shows."""
    return {
        "label": emotion.label,
        "category": emotion.category,
        "intensity": round(emotion.intensity, 3),
        "confidence": round(emotion.confidence, 3),
        "categories": {key: round(value, 4) for key, value in emotion.categories.items()},
        "modalities": {
            name: {
                "confidence": round(score.confidence, 3),
                "categories": {key: round(v, 4) for key, v in score.categories.items()},
            }
            for name, score in emotion.modalities.items()
        },
        "listener": {
            "expression": delivery.expression,
            "intensity": round(delivery.intensity, 3),
        },
    }


def memory_json(retrieval: Retrieval) -> shapes.Memory:
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


def transcript_json(transcript: Transcript) -> shapes.Transcript:
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


def usage_json(usage: Usage) -> shapes.Usage:
    """What a turn spent."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "audio_seconds_in": round(usage.audio_seconds_in, 6),
        "audio_seconds_out": round(usage.audio_seconds_out, 6),
        "video_frames": usage.video_frames,
    }


def identity_json(identity: Identity) -> shapes.Identity:
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


def turn_json(record: TurnRecord, has_clip: bool) -> shapes.Turn:
    """A turn that has ended."""
    detail = record.detail
    return {
        "id": record.id,
        "object": "turn",
        "conversation": record.conversation,
        "user": record.user,
        "identity": record.identity,
        "created": round(record.created, 3),
        "status": cast(shapes.Status, record.status),
        "input": {"text": record.text},
        "text": record.reply,
        "emotion": detail["emotion"],
        "memory": detail["memory"],
        "usage": detail["usage"],
        "timings": detail["timings"],
        "degraded": detail["degraded"],
        "error": detail["error"],
        "video": f"/v1/turns/{record.id}/video" if has_clip else None,
    }
