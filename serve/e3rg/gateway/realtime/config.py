"""What a client may set on a session and on a response, checked.

https://platform.openai.com/docs/api-reference/realtime-client-events/session/update
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from e3rg.emotions.table import ListenerPolicy
from e3rg.errors import E3RGError
from e3rg.gateway.bodies import Id, Strict, User, Voice, parse, unsupported

MAX_INSTRUCTIONS = 16_000
"""Characters."""

_Ms = Annotated[int, Field(ge=0, le=10_000)]
_Instructions = Annotated[str, Field(max_length=MAX_INSTRUCTIONS)]
_Tokens = Annotated[int, Field(ge=1, le=4096)] | Literal["inf"]
_Modalities = Annotated[list[Literal["text", "audio"]], Field(min_length=1, max_length=1)]


class PcmFormat(Strict):
    """16-bit little-endian mono at 24 kHz."""

    type: Literal["audio/pcm"] = "audio/pcm"
    rate: Literal[24000] = 24000


class G711Format(Strict):
    """G.711 at 8 kHz."""

    type: Literal["audio/pcmu", "audio/pcma"]


Format = Annotated[PcmFormat | G711Format, Field(discriminator="type")]


class ServerVad(Strict):
    """Turns end after silence."""

    type: Literal["server_vad"] = "server_vad"
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    prefix_padding_ms: _Ms = 300
    silence_duration_ms: _Ms = 500
    create_response: bool = True
    interrupt_response: bool = True
    idle_timeout_ms: Annotated[int, Field(ge=5_000, le=30_000)] | None = None


class SemanticVad(Strict):
    """Taken as server VAD whose silence follows from the eagerness: no model reads the words."""

    type: Literal["semantic_vad"]
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    create_response: bool = True
    interrupt_response: bool = True

    def as_server_vad(self) -> ServerVad:
        """The silence that ends a turn: longer for a less eager listener."""
        silence = {"low": 1_000, "medium": 600, "auto": 600, "high": 400}[self.eagerness]
        return ServerVad(
            silence_duration_ms=silence,
            create_response=self.create_response,
            interrupt_response=self.interrupt_response,
        )


TurnDetection = Annotated[ServerVad | SemanticVad, Field(discriminator="type")]


class Transcription(Strict):
    """Whether the speaker's words are told; the listener's own recogniser hears them."""

    model: Annotated[str, Field(max_length=128)] | None = None
    language: Annotated[str, Field(max_length=16)] | None = None
    prompt: Annotated[str, Field(max_length=4_000)] | None = None


class AudioInput(Strict):
    """What comes in."""

    format: Format = PcmFormat()
    noise_reduction: dict[str, Any] | None = None
    transcription: Transcription | None = Transcription()
    turn_detection: TurnDetection | None = ServerVad()


class AudioOutput(Strict):
    """What goes out."""

    format: Format = PcmFormat()
    speed: Annotated[float, Field(ge=0.25, le=1.5)] = 1.0
    voice: Voice | None = None


class Audio(Strict):
    """Sound, both ways."""

    input: AudioInput = AudioInput()
    output: AudioOutput = AudioOutput()


class Extension(Strict):
    """``session.e3rg``: what OpenAI's API has no words for.

    ``video`` None means what the connection brings: on WebRTC the offer's video, else none.
    """

    identity: Id | None = None
    policy: ListenerPolicy = ListenerPolicy.EMPATHISE
    user: User | None = None
    conversation: Id | None = None
    video: bool | None = None
    degrade: Literal["allow", "never"] = "allow"


class Settings(Strict):
    """A session, as ``session.update`` sets it and ``session.created`` shows it."""

    type: Literal["realtime"] = "realtime"
    model: Annotated[str, Field(max_length=128)] | None = None
    output_modalities: _Modalities = Field(default=["audio"])
    instructions: _Instructions = ""
    audio: Audio = Audio()
    max_output_tokens: _Tokens = "inf"
    include: list[Any] | None = None
    tools: list[Any] = Field(default=[])
    tool_choice: Any = "auto"
    prompt: dict[str, Any] | None = None
    tracing: Any = None
    truncation: Any = "auto"
    reasoning: dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    e3rg: Extension = Extension()

    @property
    def vad(self) -> ServerVad | None:
        """Turn detection, or None where the client commits by itself."""
        detection = self.audio.input.turn_detection
        return detection.as_server_vad() if isinstance(detection, SemanticVad) else detection


class ResponseOutput(Strict):
    """``response.audio.output``."""

    format: Format | None = None
    voice: Voice | None = None


class ResponseAudio(Strict):
    """``response.audio``."""

    output: ResponseOutput = ResponseOutput()


class ResponseParams(Strict):
    """``response.create``: what differs from the session for this response alone."""

    audio: ResponseAudio = ResponseAudio()
    conversation: Literal["auto", "none"] = "auto"
    input: Annotated[list[dict[str, Any]], Field(max_length=100)] | None = None
    instructions: _Instructions | None = None
    max_output_tokens: _Tokens | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = None
    output_modalities: _Modalities | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    prompt: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None


_BETA = {
    "modalities",
    "voice",
    "input_audio_format",
    "output_audio_format",
    "input_audio_transcription",
    "turn_detection",
    "temperature",
    "max_response_output_tokens",
}
# Objects whose fields are set one by one; the others are replaced as a whole.
_MERGED = {"audio", "input", "output", "e3rg"}


def updated(settings: Settings, changes: Any) -> Settings:
    """The settings after a ``session.update``.

    Raises:
        E3RGError: naming the field; then nothing has changed.
    """
    if not isinstance(changes, dict):
        raise E3RGError("invalid_type", "session: an object is wanted", param="session")
    beta = sorted(_BETA & changes.keys())
    if beta:
        raise E3RGError(
            "beta_api_shape_disabled",
            f"session.{beta[0]} is of the beta realtime API; send the current one's session.audio, "
            "session.output_modalities and session.max_output_tokens",
            param=f"session.{beta[0]}",
        )
    if changes.get("type") == "transcription":
        raise E3RGError(
            "unsupported_parameter",
            "transcription sessions are not served here; use a session of type realtime with "
            "turn_detection.create_response false, or POST /v1/audio/transcriptions",
            param="session.type",
        )
    if "type" not in changes:
        raise E3RGError(
            "missing_required_parameter",
            'session.type is missing; send "realtime"',
            param="session.type",
        )
    try:
        new = parse(Settings, _merge(settings.model_dump(), changes), strict=True)
        _refuse_tools(new.tools, new.tool_choice, new.prompt)
        if new.include:
            raise unsupported("include", "log probabilities are not known here; leave it out")
        if new.audio.input.noise_reduction is not None:
            raise unsupported(
                "audio.input.noise_reduction",
                "sound is taken as it comes; set it to null",
            )
    except E3RGError as error:
        raise _under("session", error) from error
    return new


def response_params(changes: Any) -> ResponseParams:
    """The parameters of a ``response.create``.

    Raises:
        E3RGError: naming the field.
    """
    if not isinstance(changes, dict):
        raise E3RGError("invalid_type", "response: an object is wanted", param="response")
    if "modalities" in changes:
        raise E3RGError(
            "beta_api_shape_disabled",
            "response.modalities is of the beta realtime API; send response.output_modalities",
            param="response.modalities",
        )
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        params = parse(ResponseParams, given, strict=True)
        _refuse_tools(params.tools, params.tool_choice, params.prompt)
    except E3RGError as error:
        raise _under("response", error) from error
    return params


def _merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for key, value in new.items():
        before = merged.get(key)
        if key in _MERGED and isinstance(before, dict) and isinstance(value, dict):
            merged[key] = _merge(before, value)
        else:
            merged[key] = value
    return merged


def _refuse_tools(tools: list[Any] | None, choice: Any, prompt: Any) -> None:
    if tools:
        raise unsupported("tools", "the listener calls no tools; send none")
    if choice not in (None, "auto", "none"):
        raise unsupported("tool_choice", "the listener calls no tools; send auto or none")
    if prompt is not None:
        raise unsupported("prompt", "there are no stored prompts; use instructions")


def _under(parent: str, error: E3RGError) -> E3RGError:
    param = f"{parent}.{error.param}" if error.param else parent
    return E3RGError(
        error.code, error.message, param=param, status=error.status, retry_after=error.retry_after
    )
