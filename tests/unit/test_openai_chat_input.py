"""What clients can get wrong in /v1/chat/completions: the client's own class, and never a 500."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai_kit import BARE, LISTENER, client_of, said
from scripted import Script
from test_openai_chat import parts, picture, recording, sound, words

from e3rg.stages.dialogue.engine import DialogueRequest

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def client(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(script.stages(), tmp_path, monkeypatch) as client:
        yield client


def schema(**fields: Any) -> dict[str, Any]:
    named = {"name": "answer", "schema": SCHEMA | fields}
    return {"model": BARE, "response_format": {"type": "json_schema", "json_schema": named}}


def deep(levels: int) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        node = {"type": "array", "items": node}
    return node


BAD: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "invalid_type"),
    ({"messages": "Hello"}, "invalid_type"),
    ({"messages": [{"role": "user"}]}, "invalid_type"),
    ({"messages": [{"role": "king", "content": "Hello"}]}, "invalid_type"),
    ({"messages": [{"role": "user", "content": 5}]}, "invalid_type"),
    ({"messages": [{"role": "user", "content": "Hi", "mood": "sad"}]}, "unknown_field"),
    ({"messages": [{"role": "user", "content": [{"type": "video_url"}]}]}, "invalid_type"),
    ({"messages": [{"role": "tool", "tool_call_id": "1", "content": ""}]}, "unsupported_parameter"),
    ({"messages": [*said(), {"role": "assistant", "content": "Oh."}]}, "invalid_messages"),
    ({"messages": said("")}, "text_empty"),
    ({"messages": said("a" * 5_000)}, "text_too_long"),
    ({"messages": said("a" * 1_500_000)}, "context_length_exceeded"),
    ({"messages": [{"role": "system", "content": "a" * 9_000}, *said()]}, "instructions_too_long"),
    ({"messages": parts(words("Hi"), picture("http://169.254.169.254/latest"))}, "unsupported_url"),
    ({"messages": parts(words("Hi"), picture("file:///etc/passwd"))}, "unsupported_url"),
    ({"messages": parts(words("Hi"), picture("data:image/png;base64,@@@"))}, "invalid_base64"),
    ({"messages": parts(words("Hi"), picture("data:image/png;base64,é"))}, "invalid_base64"),
    ({"messages": parts(words("Hi"), *[picture()] * 9)}, "too_many_media"),
    ({"messages": parts(picture())}, "text_empty"),
    ({"messages": parts(sound("!"))}, "invalid_base64"),
    ({"messages": parts(sound(""))}, "invalid_base64"),
    ({"messages": parts(sound(recording()), sound(recording()))}, "too_many_media"),
    ({"temperature": -1}, "invalid_type"),
    ({"temperature": 1e308}, "invalid_type"),
    ({"temperature": "hot"}, "invalid_type"),
    ({"top_p": 2}, "invalid_type"),
    ({"seed": 2**64}, "invalid_type"),
    ({"seed": 1.5}, "invalid_type"),
    ({"max_tokens": 0}, "invalid_type"),
    ({"max_completion_tokens": True}, "invalid_type"),
    ({"stop": ["a"] * 5}, "invalid_type"),
    ({"stop": ""}, "invalid_type"),
    ({"stop": [1]}, "invalid_type"),
    ({"n": 2}, "unsupported_parameter"),
    ({"tools": [{"type": "function"}]}, "unsupported_parameter"),
    ({"functions": [{"name": "f"}]}, "unsupported_parameter"),
    ({"tool_choice": "required"}, "unsupported_parameter"),
    ({"logprobs": True}, "unsupported_parameter"),
    ({"logit_bias": {"50256": -100}}, "unsupported_parameter"),
    ({"response_format": {"type": "json_object"}}, "unsupported_parameter"),
    ({"response_format": {"type": "xml"}}, "invalid_type"),
    ({"modalities": ["audio"]}, "unsupported_parameter"),
    ({"modalities": ["video"]}, "invalid_type"),
    (
        {"modalities": ["text", "audio"], "audio": {"voice": "hal", "format": "wav"}},
        "unknown_voice",
    ),
    ({"extra_body": {"e3rg": {"mood": "sad"}}}, "unknown_field"),
    ({"extra_body": {"e3rg": {"user": "a\x00b"}}}, "invalid_type"),
    ({"extra_body": {"surprise": True}}, "unknown_field"),
    ({"model": "kokoro-82m"}, "model_not_supported"),
    ({"model": BARE, "messages": parts(picture())}, "unsupported_parameter"),
    ({"model": BARE, "modalities": ["text", "audio"]}, "unsupported_parameter"),
    ({"model": BARE, "extra_body": {"e3rg": {"user": "ann"}}}, "unsupported_parameter"),
    (schema(properties={"a": deep(40)}), "invalid_json_schema"),
    (
        schema(properties={"a": {"type": "string", "pattern": "^(a{1,99}){1,99}$"}}),
        "invalid_json_schema",
    ),
    (schema(properties={"a": {"minLength": 5, "maxLength": 2}}), "invalid_json_schema"),
    (schema(properties={"a": {"minItems": 10**9}}), "invalid_json_schema"),
    (schema(properties={"a": {"minimum": 10**40}}), "invalid_json_schema"),
    (schema(enum=[str(n) for n in range(3000)]), "invalid_json_schema"),
]


async def test_bad_requests(client: openai.AsyncOpenAI, script: Script) -> None:
    wrong = []
    for fields, code in BAD:  # one server for all: starting one takes longer than asking
        try:
            await client.chat.completions.create(**{"model": LISTENER, "messages": said()} | fields)
            got = "an answer"
        except openai.BadRequestError as error:
            got = f"{error.code}"
            assert error.type == "invalid_request_error"
            assert len(error.message) < 2_000
        if got != code:
            wrong.append((str(fields)[:200], code, got))
    assert wrong == []
    assert script.idle
    assert not [call for call in script.calls if call[0] == "dialogue"]


@pytest.mark.parametrize(
    ("fields", "kind", "code"),
    [
        ({"model": "gpt-9"}, openai.NotFoundError, "model_not_found"),
        (
            {"extra_body": {"e3rg": {"identity": "nobody"}}},
            openai.NotFoundError,
            "unknown_identity",
        ),
        (
            {"messages": [{"role": "assistant", "audio": {"id": "audio_x"}}, *said()]},
            openai.NotFoundError,
            "audio_not_found",
        ),
        (
            {"messages": parts(words("Hi"), picture("data:image/png;base64,AAAA"))},
            openai.UnprocessableEntityError,
            "image_unreadable",
        ),
        (
            {"messages": parts(sound("AAAA" * 99))},
            openai.UnprocessableEntityError,
            "audio_unreadable",
        ),
        ({"messages": said("a" * 17_000_000)}, openai.APIStatusError, "body_too_large"),
    ],
)
async def test_other_classes(
    client: openai.AsyncOpenAI, fields: dict[str, Any], kind: type[openai.APIStatusError], code: str
) -> None:
    with pytest.raises(kind) as caught:
        await client.chat.completions.create(**{"model": LISTENER, "messages": said()} | fields)
    assert caught.value.code == code
    assert caught.value.status_code < 500


BROKEN = [
    b"\xff\xfe",
    b"[]",
    b'{"model": "e3rg"}',
    b'{"model": "e3rg", "messages": [{"role": "user", "content": "\xc3\x28"}]}',
    b'{"model": "e3rg", "messages": [{"role": "user", "content": "\\ud800"}]}',
    b'{"model": "e3rg", "messages": [{"role": "user", "content": "Hi"}], "temperature": NaN}',
    b'{"model": "e3rg", "messages": [{"role": "user", "content": "Hi"}], "seed": 1e999}',
    b'{"model": "e3rg", "messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"model": "e3rg", "metadata": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}",
    b'{"model": "e3rg", "temperature": 1' + b"0" * 5_000 + b"}",
]


async def test_broken_json(client: openai.AsyncOpenAI) -> None:
    async with httpx.AsyncClient() as raw:
        for body in BROKEN:
            answer = await raw.post(
                f"{client.base_url}chat/completions",
                content=body,
                headers={"content-type": "application/json"},
            )
            assert answer.status_code == 400, body[:80]
            assert answer.json()["error"]["type"] == "invalid_request_error"
            assert len(answer.content) < 2_000


async def test_what_frameworks_send_is_taken(client: openai.AsyncOpenAI, script: Script) -> None:
    harmless: dict[str, Any] = {
        "n": 1,
        "tools": [],
        "tool_choice": "none",
        "logprobs": False,
        "logit_bias": {},
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "max_completion_tokens": 5_000,
        "parallel_tool_calls": True,
        "reasoning_effort": "low",
        "verbosity": "low",
        "store": False,
        "metadata": {"a": "b"},
        "user": "u1",
        "service_tier": "auto",
        "safety_identifier": "x",
        "prompt_cache_key": "x",
        "stop": None,
        "seed": -5,
        "stream_options": {"include_usage": True},
    }
    for model in (LISTENER, BARE):
        answer = await client.chat.completions.create(
            model=model,
            messages=[
                {"role": "system", "content": [words("Be kind.")], "name": "app"},  # type: ignore[list-item]
                {"role": "user", "content": [words("Hello.")], "name": "ann"},  # type: ignore[list-item]
            ],
            **harmless,
        )
        assert answer.choices[0].message.content


async def test_an_answer_can_be_sent_back(client: openai.AsyncOpenAI) -> None:
    for fields in ({}, {"modalities": ["text", "audio"]}):
        first = await client.chat.completions.create(
            model=LISTENER,
            messages=said(),
            **fields,  # type: ignore[call-overload]
        )
        message = first.choices[0].message
        for form in (message, json.loads(message.model_dump_json())):
            messages: list[Any] = [*said(), form, *said("It hurts.")]
            assert await client.chat.completions.create(model=LISTENER, messages=messages)


async def test_the_bare_model_gets_its_messages_unchanged(
    client: openai.AsyncOpenAI, script: Script
) -> None:
    messages: list[Any] = [
        {"role": "developer", "content": " Speak like a pirate.\n"},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [words("Ahoy"), words("there")]},
        {"role": "user", "content": "?!"},
    ]
    await client.chat.completions.create(model=BARE, messages=messages)
    (request,) = [what for stage, what in script.calls if stage == "dialogue"]
    assert isinstance(request, DialogueRequest)
    assert [(m.role, m.content) for m in request.messages] == [
        ("system", " Speak like a pirate.\n"),
        ("user", "Hi"),
        ("assistant", "Ahoy\nthere"),
        ("user", "?!"),
    ]
    assert request == DialogueRequest(
        request.messages,
        max_tokens=None,
        temperature=None,
        top_p=None,
        frequency_penalty=None,
        truncate=False,
    )
