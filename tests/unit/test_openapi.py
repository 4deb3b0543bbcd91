"""The OpenAPI document, the page that shows it, and the errors as OpenAI's client raises them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from pydantic import BaseModel
from scripted import Script

from e3rg.config import load_profile
from e3rg.errors import E3RGError
from e3rg.gateway import faults
from e3rg.gateway.http import build_app
from e3rg.gateway.openapi import gives, takes
from e3rg.gateway.openapi_document import TAGS, document
from e3rg.gateway.services import Services
from e3rg.gateway.shapes import EVENTS
from e3rg.inprocess import served


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    return build_app(Services.create(load_profile("local"), Script().stages())).openapi()


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: Script
) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    async with (
        served(load_profile("local"), script.stages()) as address,
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        yield client


def operations(made: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_it_is_valid(made: dict[str, Any]) -> None:
    assert made["openapi"].startswith("3.1")
    validate(made)
    text = json.dumps(made)
    assert "#/$defs/" not in text
    assert "HTTPValidationError" not in text
    schemas = made["components"]["schemas"]
    references = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert references == set(schemas), "each schema is used, and each reference leads somewhere"
    assert not [name for name in schemas if not name.isidentifier() or name.endswith("_")]


def test_it_is_good_for_generators(made: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(made)]
    assert len(set(names)) == len(names)
    assert {"create_turn", "get_turn", "list_identities", "create_video"} <= set(names)
    known = {tag["name"] for tag in TAGS}
    for path, method, operation in operations(made):
        assert set(operation["tags"]) <= known, (path, method)
        assert operation["summary"], (path, method)
        for status, response in operation["responses"].items():
            if "$ref" in response:
                name = response["$ref"].rpartition("/")[2]
                response = made["components"]["responses"][name]
            assert response["headers"]["X-Request-Id"]["required"], (path, method, status)
            for media in response.get("content", {}).values():
                assert media["schema"], (path, method, status)


def test_errors_follow_from_what_an_operation_does(made: dict[str, Any]) -> None:
    turn = made["paths"]["/v1/turns"]["post"]["responses"]
    assert {"200", "400", "403", "404", "408", "413", "415", "422", "500", "503", "504"} <= set(
        turn
    )
    assert "404" in made["paths"]["/v1/turns/{turn_id}"]["get"]["responses"]
    assert set(made["paths"]["/healthz"]["get"]["responses"]) == {"200", "500"}
    busy = made["components"]["responses"]["ServiceUnavailable"]
    assert busy["headers"]["Retry-After"]["required"]
    assert busy["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


def test_one_name_is_one_schema() -> None:
    def model(kind: type) -> type[BaseModel]:
        return type("Same", (BaseModel,), {"__annotations__": {"value": kind}, "__module__": "x"})

    app = FastAPI()
    for path, kind in (("/a", int), ("/b", str), ("/c", int)):
        app.post(path, openapi_extra=takes(json=model(kind)), responses=gives(model(kind)))(
            lambda: None
        )
    made = document(app.openapi())
    asked = [
        operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        for _, _, operation in operations(made)
    ]
    assert asked[0] == asked[2] != asked[1]


async def test_what_is_sent_is_what_is_said(client: httpx.AsyncClient) -> None:
    made = (await client.get("/openapi.json")).json()

    def check(name: str, value: Any) -> None:
        schema = {"$ref": f"#/components/schemas/{name}", "components": made["components"]}
        Draft202012Validator(schema).validate(value)
        for key in set(value) if isinstance(value, dict) else ():
            assert key in made["components"]["schemas"][name]["properties"], (name, key)

    seen = set()
    body = {"text": "I lost my dog."}
    async with client.stream("POST", "/v1/turns", json=body) as response:
        turn = response.headers["x-e3rg-turn"]
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: "):
                seen.add(event)
                check(EVENTS[event].__name__, json.loads(line.removeprefix("data: ")))
    assert seen >= set(EVENTS) - {"transcript", "degraded", "error"}
    check("Turn", (await client.get(f"/v1/turns/{turn}")).json())
    check("Identities", (await client.get("/v1/identities")).json())
    check("Readiness", (await client.get("/readyz")).json())
    check("Error", (await client.get("/v1/turns/none")).json())


async def test_the_documentation_comes_from_here_alone(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")
    assert page.status_code == 200
    assert "script-src 'self';" in page.headers["content-security-policy"]
    assert "://" not in page.text
    assert "<script>" not in page.text
    for part in page.text.split('"/')[1:]:
        address = "/" + part.split('"')[0]
        assert (await client.get(address)).status_code == 200, address
    assert (await client.get("/redoc")).status_code == 404
    assert (await client.get("/docs/../http.py")).status_code == 404


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (408, openai.APIStatusError),
        (409, openai.ConflictError),
        (413, openai.APIStatusError),
        (415, openai.APIStatusError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (502, openai.InternalServerError),
        (503, openai.InternalServerError),
        (504, openai.InternalServerError),
        (507, openai.InternalServerError),
    ],
)
async def test_openai_client_raises_its_own_exception(status: int, kind: type[Exception]) -> None:
    app = FastAPI()
    faults.install(app)

    @app.get("/v1/models")
    async def fail() -> None:
        raise E3RGError("why", "This is why.", param="model", status=status)

    async with openai.AsyncOpenAI(
        base_url="http://server/v1",
        api_key="x",
        max_retries=0,
        http_client=httpx.AsyncClient(transport=httpx.ASGITransport(faults.RequestId(app))),
    ) as client:
        with pytest.raises(openai.APIStatusError) as raised:
            await client.models.list()
    error = raised.value
    assert isinstance(error, kind)
    assert (error.status_code, error.code, error.param) == (status, "why", "model")
    assert "This is why." in str(error)
    assert error.request_id
    assert ("retry-after" in error.response.headers) == (status in {429, 503})


@pytest.mark.filterwarnings("ignore:The Sora API")
async def test_openai_client_and_what_it_can_do_wrong(
    client: httpx.AsyncClient, script: Script
) -> None:
    script.hold["avatar"] = asyncio.Event()  # the video is not finished
    own = openai.AsyncOpenAI(base_url=f"{client.base_url}/v1", api_key="x", max_retries=0)
    async with own:
        with pytest.raises(openai.NotFoundError):
            await own.videos.retrieve("none")
        with pytest.raises(openai.NotFoundError):
            await own.post("/nothing", cast_to=object)
        with pytest.raises(openai.BadRequestError):
            await own.post("/turns", cast_to=object, body={"text": ""})
        with pytest.raises(openai.UnprocessableEntityError):
            await own.post("/turns", cast_to=object, body={"text": "Привет, как дела"})
        with pytest.raises(openai.PermissionDeniedError):
            await own.delete("/identities/clara", cast_to=object)
        video = await own.videos.create(prompt="I lost my dog.")
        with pytest.raises(openai.ConflictError):
            await own.videos.download_content(video.id)
