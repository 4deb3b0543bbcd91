"""What no schema can say, put into the valid requests that Schemathesis makes (schemathesis.toml).

Words must be words, a voice one of the engine's, files of their kind, a page's end a known id.
"""

from __future__ import annotations

from typing import Any

import schemathesis
from media_samples import video_file
from schemathesis.core.parameters import ParameterLocation
from schemathesis.transport.serialization import Binary

_WORDS = {"text", "user", "name", "profile", "prompt", "input", "content", "instructions"}
# To the scripted avatar any file is a portrait.
_FILES = {"audio", "video", "portrait", "file", "input_reference"}
_MODELS = {
    "/v1/audio/speech": "kokoro-82m",
    "/v1/audio/transcriptions": "whisper-tiny.en",
    "/v1/chat/completions": "e3rg",
    "/v1/embeddings": "all-minilm-l6-v2",
    "/v1/videos": "e3rg",
}
_FILM = video_file(0.4, sound=True)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    if case.meta is None or case.meta.generation.mode.is_negative:
        return
    if isinstance(case.query, dict):
        case.query.pop("after", None)
    if isinstance(case.body, dict):
        _mend(case.body)
        if "video" in case.body:  # audio or video, not both
            case.body.pop("audio", None)
        if case.body.get("format") == "mp4":  # which only a film can be
            case.body.pop("reply_with", None)
        if case.path in _MODELS:
            case.body["model"] = _MODELS[case.path]
        # It is still the valid request; Schemathesis takes any change of one with a file for a
        # fault of it.
        case._meta.update_validated_hash(ParameterLocation.BODY, case._hash_container(case.body))


def _mend(body: dict[str, Any]) -> None:
    for name, value in body.items():
        if name in _FILES and isinstance(value, Binary):
            body[name] = Binary(_FILM)
        elif name in _WORDS:
            body[name] = _spoken(value)
        elif name == "voice" and isinstance(value, str):
            body[name] = "af_heart"
        elif isinstance(value, dict):
            _mend(value)
        elif isinstance(value, list):
            for part in value:
                if isinstance(part, dict):
                    _mend(part)


def _spoken(value: Any) -> Any:
    """Text of the same length whose characters can be spoken."""
    if isinstance(value, list):
        return [_spoken(part) for part in value]
    if isinstance(value, dict):
        _mend(value)
    if not isinstance(value, str) or not value:
        return value
    kept = "".join(char if char.isascii() and char.isprintable() else "a" for char in value)
    return f"a{kept[1:]}"
