"""How a profile's engine and its options are held against the engine's signature."""

from typing import Any, Self

import pytest

from e3rg.config import ConfigError
from e3rg.engines import EngineContext, load_engine
from e3rg.local_context import engine_context
from e3rg.stages.avatar.registry import ENGINES as AVATAR
from e3rg.stages.dialogue.openai import OpenAIDialogue
from e3rg.stages.dialogue.registry import ENGINES as DIALOGUE
from e3rg.stages.memory.registry import ENGINES as MEMORY
from e3rg.stages.speech.registry import ENGINES as SPEECH
from e3rg.stages.understanding.registry import ENGINES as UNDERSTANDING

REMOTE = {"base_url": "http://127.0.0.1:9/v1", "model": "any"}


def load(options: dict[str, Any], name: str = "openai") -> Any:
    return load_engine(DIALOGUE, name, engine_context(), options)


def refusal(options: dict[str, Any], name: str = "openai") -> str:
    with pytest.raises(ConfigError) as caught:
        load(options, name)
    return str(caught.value)


def test_right_options_load() -> None:
    assert isinstance(load({**REMOTE, "timeout_s": 5}), OpenAIDialogue)  # a whole number of seconds


def test_a_missing_option_is_named() -> None:
    message = refusal({"model": "any"})
    assert "'openai'" in message
    assert "'base_url'" in message
    assert "options are base_url, model, api_key_env, timeout_s, continuous_usage" in message


def test_an_unknown_option_is_named() -> None:
    message = refusal({**REMOTE, "colour": "red"})
    assert "'colour'" in message
    assert "timeout_s" in message


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("timeout_s", "5", "a number"),
        ("timeout_s", True, "a number"),
        ("model", 7, "a string"),
        ("base_url", None, "a string"),
    ],
)
def test_a_wrong_type_is_said(option: str, value: object, wanted: str) -> None:
    assert f"{option} must be {wanted}, not {value!r}" in refusal({**REMOTE, option: value})


def test_an_integer_is_not_true_and_not_a_fraction() -> None:
    assert "threads must be an integer" in refusal({"threads": True}, "llama")
    assert "threads must be an integer" in refusal({"threads": 1.5}, "llama")


def test_unions_name_their_members() -> None:
    with pytest.raises(ConfigError, match=r"flush_every must be an integer or null, not 'x'"):
        load_engine(MEMORY, "milvus", engine_context(), {"flush_every": "x"})


def test_an_unknown_engine_is_said() -> None:
    assert "one of llama, openai" in refusal({}, "gpt")


class Broken:
    """An engine whose own library is called wrongly: not the profile's fault."""

    @classmethod
    def load(cls, context: EngineContext) -> Self:
        def library() -> Self:
            return cls()

        return library(colour="red")  # type: ignore[call-arg]

    def close(self) -> None: ...


def test_a_fault_inside_an_engine_is_not_blamed_on_the_profile() -> None:
    with pytest.raises(TypeError, match="colour"):
        load_engine({"broken": f"{__name__}:Broken"}, "broken", engine_context(), {})


@pytest.mark.parametrize("registry", [AVATAR, DIALOGUE, MEMORY, SPEECH, UNDERSTANDING])
def test_every_engine_names_its_options(registry: dict[str, str]) -> None:
    for name in registry:
        with pytest.raises(ConfigError, match="its options are"):
            load_engine(registry, name, engine_context(), {"no_such_option": 1})
