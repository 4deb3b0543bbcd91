"""What a client sends to /v1/chat/completions
(https://platform.openai.com/docs/api-reference/chat/create).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from e3rg.emotions.table import ListenerPolicy
from e3rg.gateway.bodies import Id, ModelName, Strict, User, Voice, unsupported
from e3rg.gateway.protocols.openai.chat_format import ResponseFormat


class TextPart(Strict):
    """Words."""

    type: Literal["text"]
    text: str
    prompt_cache_breakpoint: dict[str, Any] | None = None


class ImageUrl(Strict):
    """A picture, inside the URL itself: ``data:image/jpeg;base64,...``."""

    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class ImagePart(Strict):
    """The speaker's face."""

    type: Literal["image_url"]
    image_url: ImageUrl
    prompt_cache_breakpoint: dict[str, Any] | None = None


class InputAudio(Strict):
    """A recording in base64."""

    data: str
    format: Literal["wav", "mp3"]


class AudioPart(Strict):
    """The speaker's voice."""

    type: Literal["input_audio"]
    input_audio: InputAudio
    prompt_cache_breakpoint: dict[str, Any] | None = None


class RefusalPart(Strict):
    """An assistant's refusal, as other servers write it."""

    type: Literal["refusal"]
    refusal: str


Part = Annotated[TextPart | ImagePart | AudioPart | RefusalPart, Field(discriminator="type")]


def _form(value: Any) -> str:
    return "list" if isinstance(value, list) else "text"


# Chosen by what came, so that an error speaks of the form that was meant.
Content = Annotated[
    Annotated[str, Tag("text")] | Annotated[list[Part], Tag("list"), Field(max_length=64)],
    Discriminator(_form),
]
Stop = Annotated[
    Annotated[str, Tag("text"), Field(min_length=1, max_length=256)]
    | Annotated[
        list[Annotated[str, Field(min_length=1, max_length=256)]],
        Tag("list"),
        Field(max_length=4),
    ],
    Discriminator(_form),
]


class SystemMessage(Strict):
    """What the application asks of the model."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class UserMessage(Strict):
    """What the speaker said."""

    role: Literal["user"]
    content: Content
    name: str | None = None


class AudioRef(Strict):
    """An earlier spoken answer by its id; what else an answer holds may come along."""

    id: Annotated[str, Field(max_length=128)]
    data: str | None = None
    transcript: str | None = None
    expires_at: int | None = None


class AssistantMessage(Strict):
    """What was answered; ``content`` or ``audio``. An answer's own message can be sent back."""

    role: Literal["assistant"]
    content: Content | None = None
    audio: AudioRef | None = None
    name: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None
    tool_calls: list[Any] | None = None
    function_call: dict[str, Any] | None = None


class ToolMessage(BaseModel):
    """A tool's result, which nothing here asks for."""

    model_config = ConfigDict(extra="allow")

    role: Literal["tool", "function"]


Message = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


class AudioOut(Strict):
    """How the answer is spoken; streamed, ``pcm16`` is the only format."""

    voice: Voice | None = Field(
        default=None, description="of the engine, an identity, or OpenAI's; else the listener's own"
    )
    format: Literal["wav", "mp3", "flac", "opus", "aac", "pcm16"] = "wav"


class StreamOptions(Strict):
    """Of a streamed answer."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Extension(Strict):
    """What OpenAI's API has no words for; only for listeners (see POST /v1/turns)."""

    identity: Id | None = None
    conversation: Id | None = Field(
        default=None, description="goes on with earlier turns, if messages holds none"
    )
    user: User | None = Field(default=None, description="gives access to this user's own memory")
    policy: ListenerPolicy = ListenerPolicy.EMPATHISE
    degrade: Literal["allow", "never"] = "allow"


class ChatBody(Strict):
    """A chat completion. Fields that are not honoured are refused when they are set."""

    model: ModelName
    messages: Annotated[list[Message], Field(min_length=1, max_length=2048)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Stop | None = None
    response_format: ResponseFormat | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    audio: AudioOut | None = None
    e3rg: Extension | None = None
    # Refused unless they ask for what is done anyway.
    n: int | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    functions: list[Any] | None = None
    function_call: Any = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    web_search_options: dict[str, Any] | None = None
    moderation: dict[str, Any] | None = None
    # Taken and of no effect.
    user: str | None = None
    store: bool | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with its usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def reply_tokens(self) -> int | None:
        """Bound of the reply; the newer of the two names wins."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        """What ends the reply."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "prediction": (),
    "web_search_options": (),
    "moderation": (),
}


def refuse_unsupported(body: ChatBody) -> None:
    """Refuse what no model here honours.

    Raises:
        E3RGError: ``unsupported_parameter``.
    """
    for name, neutral in _NEUTRAL.items():
        value = getattr(body, name)
        if value is not None and value not in neutral:
            raise unsupported(name, "not supported here; leave it out")
    for number, message in enumerate(body.messages):
        param = f"messages.{number}"
        if isinstance(message, ToolMessage):
            raise unsupported(param, f"there are no tools here; send no {message.role}")
        if isinstance(message, AssistantMessage) and (message.tool_calls or message.function_call):
            raise unsupported(param, "there are no tools here; leave out the calls")


def text_of(content: str | list[Any] | None) -> str:
    """The words of a message's content; parts are lines."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text for part in content if isinstance(part, TextPart))
