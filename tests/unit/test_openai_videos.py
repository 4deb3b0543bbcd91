"""/v1/videos with the official client, over scripted stages and over the real ones."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import av
import cv2
import httpx
import numpy as np
import openai
import pytest
from openai import AsyncOpenAI
from scripted import JPEG, Script

from e3rg.config import GatewayConfig, load_profile
from e3rg.errors import E3RGError
from e3rg.identities.store import BUILTIN
from e3rg.inprocess import local_stages, served
from e3rg.media.probe import measure_skew
from e3rg.media.types import Pcm
from e3rg.stages.avatar.engine import RenderRequest
from e3rg.stages.dialogue.engine import DialogueRequest

pytestmark = pytest.mark.filterwarnings("ignore:The Sora API:DeprecationWarning")

PROMPT = "I lost my dog yesterday."
FILE = "input_reference"
POLL: Any = {"poll_interval_ms": 50}


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def address(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    profile = load_profile("local").model_copy(update={"gateway": GatewayConfig(max_turns=3)})
    async with served(profile, script.stages()) as address:
        yield address


@pytest.fixture
async def client(address: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0) as client:
        yield client


@pytest.fixture
async def web(address: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{address}/v1", timeout=30) as web:
        yield web


async def busy(script: Script, stage: str) -> None:
    await script.until_working(stage)


async def test_a_video_from_beginning_to_end(
    client: AsyncOpenAI, web: httpx.AsyncClient, script: Script
) -> None:
    video = await client.videos.create(
        prompt=PROMPT, model="sora-2", seconds="8", extra_body={"user": "ann", "seed": 7}
    )
    assert re.fullmatch(r"video_[0-9a-f]{24}", video.id)
    assert (video.object, video.status, video.progress) == ("video", "queued", 0)
    assert (video.model, video.prompt, video.seconds, video.size) == (
        "e3rg",
        PROMPT,
        "8",
        "512x512",
    )
    assert video.completed_at is None
    done = await client.videos.poll(video.id, **POLL)
    assert (done.status, done.progress, done.error) == ("completed", 100, None)
    assert done.completed_at is not None
    assert done.expires_at == pytest.approx(done.completed_at + 24 * 3600, abs=2)
    content = await client.videos.download_content(video.id)
    assert content.response.headers["content-type"] == "video/mp4"
    report = measure_skew(content.content)
    assert float(done.seconds) == pytest.approx(report.frames / 25, abs=0.01)
    assert report.skew_ms <= 40
    sides = {}
    for variant in ("thumbnail", "spritesheet"):
        file = await client.videos.download_content(video.id, variant=variant)  # type: ignore[arg-type]
        assert file.response.headers["content-type"] == "image/jpeg"
        sides[variant] = cv2.imdecode(np.frombuffer(file.content, np.uint8), 1).shape
    assert sides == {"thumbnail": (512, 512, 3), "spritesheet": (800, 800, 3)}
    turn = (await web.get(f"/turns/{done.turn}")).json()  # type: ignore[attr-defined]
    assert (turn["status"], turn["user"], turn["input"]["text"]) == ("completed", "ann", PROMPT)
    asked = next(what for stage, what in script.calls if stage == "dialogue")
    assert isinstance(asked, DialogueRequest)
    assert (asked.max_tokens, asked.seed) == (40, 7)
    gone = await client.videos.delete(video.id)
    assert (gone.id, gone.deleted, gone.object) == (video.id, True, "video.deleted")
    for call in (client.videos.retrieve, client.videos.download_content, client.videos.delete):
        with pytest.raises(openai.NotFoundError) as refused:
            await call(video.id)
        assert refused.value.code == "unknown_video"


async def test_progress_and_what_is_not_ready(client: AsyncOpenAI, script: Script) -> None:
    script.hold["avatar"] = asyncio.Event()
    video = await client.videos.create(prompt=PROMPT)
    await busy(script, "avatar")
    async with asyncio.timeout(10):
        while (seen := await client.videos.retrieve(video.id)).progress < 10:
            await asyncio.sleep(0.05)
    assert (seen.status, seen.progress) == ("in_progress", 10)
    with pytest.raises(openai.ConflictError) as refused:
        await client.videos.download_content(video.id)
    assert refused.value.code == "video_not_ready"
    script.hold["avatar"].set()
    assert (await client.videos.poll(video.id, **POLL)).status == "completed"


async def test_deleting_stops_the_work(client: AsyncOpenAI, script: Script) -> None:
    script.hold["speech"] = asyncio.Event()
    video = await client.videos.create(prompt=PROMPT)
    await busy(script, "speech")
    await client.videos.delete(video.id)
    await script.until_idle()
    script.hold.clear()
    done = await client.videos.create_and_poll(prompt=PROMPT, **POLL)
    assert done.status == "completed"


async def test_a_failure_is_told(client: AsyncOpenAI, script: Script) -> None:
    script.fail["avatar"] = E3RGError("avatar_failed", "the avatar is broken", status=502)
    failed = await client.videos.create_and_poll(prompt=PROMPT, **POLL)
    assert failed.status == "failed"
    assert failed.error is not None
    assert (failed.error.code, failed.error.message) == ("avatar_failed", "the avatar is broken")
    assert failed.expires_at is None
    with pytest.raises(openai.NotFoundError, match="avatar is broken"):
        await client.videos.download_content(failed.id)


async def test_listeners_and_portraits(client: AsyncOpenAI, script: Script) -> None:
    named = await client.videos.create(prompt=PROMPT, model="e3rg-henry")
    by_field = await client.videos.create(
        prompt=PROMPT, extra_body={"identity": "mei", "policy": "mirror"}
    )
    given = await client.videos.create(prompt=PROMPT, input_reference=("me.jpg", JPEG))
    assert (named.model, by_field.model) == ("e3rg-henry", "e3rg")
    for video, identity in ((named, "henry"), (by_field, "mei"), (given, "clara")):
        assert (await client.videos.poll(video.id, **POLL)).status == "completed"
        assert video.identity == identity  # type: ignore[attr-defined]
    rendered = {what.portrait.sha256 for _, what in script.calls if isinstance(what, RenderRequest)}
    assert hashlib.sha256(JPEG).hexdigest() in rendered
    assert len(rendered) == 3


async def test_lists(client: AsyncOpenAI, script: Script) -> None:
    empty = await client.videos.list()
    assert (empty.data, empty.has_more, empty.last_id) == ([], False, None)
    script.hold["understanding"] = asyncio.Event()
    made = [(await client.videos.create(prompt=f"{PROMPT} {n}")).id for n in range(5)]
    assert [video.id async for video in client.videos.list(limit=2)] == made[::-1]
    assert [video.id async for video in client.videos.list(limit=2, order="asc")] == made
    page = await client.videos.list(limit=2, order="asc", after=made[1])
    assert [video.id for video in page.data] == made[2:4]
    assert (page.has_more, page.last_id) == (True, made[3])
    assert page.first_id == made[2]  # type: ignore[attr-defined]


async def test_a_full_queue(client: AsyncOpenAI, script: Script) -> None:
    script.hold["understanding"] = asyncio.Event()
    made = [await client.videos.create(prompt=PROMPT) for _ in range(32)]
    with pytest.raises(openai.InternalServerError) as refused:
        await client.videos.create(prompt=PROMPT, input_reference=("me.jpg", JPEG))
    assert (refused.value.status_code, refused.value.code) == (503, "video_queue_full")
    assert int(refused.value.response.headers["retry-after"]) > 0
    await client.videos.delete(made[-1].id)
    await client.videos.create(prompt=PROMPT)


BAD: list[tuple[dict[str, Any], type[openai.APIStatusError], str, str]] = [
    ({"prompt": ""}, openai.BadRequestError, "text_empty", "prompt"),
    ({"prompt": " \n"}, openai.BadRequestError, "text_empty", "prompt"),
    ({"prompt": "?!"}, openai.BadRequestError, "text_no_words", "prompt"),
    ({"prompt": "a" * 4001}, openai.BadRequestError, "text_too_long", "prompt"),
    ({"prompt": "我的狗死了"}, openai.UnprocessableEntityError, "unsupported_language", "prompt"),
    ({"seconds": "5"}, openai.BadRequestError, "unsupported_seconds", "seconds"),
    ({"seconds": ""}, openai.BadRequestError, "unsupported_seconds", "seconds"),
    ({"size": "720x1280"}, openai.BadRequestError, "unsupported_size", "size"),
    ({"size": "big"}, openai.BadRequestError, "unsupported_size", "size"),
    ({"model": "sora-9"}, openai.NotFoundError, "model_not_found", "model"),
    ({"model": "kokoro-82m"}, openai.BadRequestError, "model_not_supported", "model"),
    ({"identity": "nobody"}, openai.NotFoundError, "unknown_identity", "identity"),
    (
        {"model": "e3rg-mei", "identity": "henry"},
        openai.BadRequestError,
        "identity_conflict",
        "identity",
    ),
    ({"seed": "x"}, openai.BadRequestError, "invalid_type", "seed"),
    ({"seed": "-1"}, openai.BadRequestError, "invalid_type", "seed"),
    ({"policy": "laugh"}, openai.BadRequestError, "invalid_type", "policy"),
    ({"user": "a\x00b"}, openai.BadRequestError, "invalid_type", "user"),
    ({"fps": "60"}, openai.BadRequestError, "unknown_field", "fps"),
    *(
        ({"input_reference": given}, openai.BadRequestError, "unsupported_parameter", FILE)
        for given in ({"image_url": "https://example.com/me.jpg"}, {"file_id": "file-1"}, "me.jpg")
    ),
]


async def test_bad_fields(client: AsyncOpenAI) -> None:
    for fields, error, code, param in BAD:
        plain = {"prompt": PROMPT}
        plain |= {name: fields[name] for name in ("prompt", "model") if name in fields}
        extra = {name: value for name, value in fields.items() if name not in plain}
        with pytest.raises(error) as refused:
            await client.videos.create(**plain, extra_body=extra)
        assert (refused.value.code, refused.value.param) == (code, param), fields
        assert refused.value.type == "invalid_request_error"
    assert (await client.videos.list()).data == []


async def test_bad_lists(client: AsyncOpenAI) -> None:
    bad: list[dict[str, Any]] = [
        {"limit": 0},
        {"limit": 101},
        {"limit": "many"},
        {"order": "sideways"},
        {"after": "video_" + "0" * 24},
        {"after": "\x00"},
    ]
    for query in bad:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.videos.list(**query)
        assert refused.value.code in {"invalid_type", "invalid_after"}, query


async def test_unknown_videos(client: AsyncOpenAI) -> None:
    for video in ("x", "video_1", "video_" + "0" * 24, "a\x00b", "é", "a/b"):
        for call in (client.videos.retrieve, client.videos.delete, client.videos.download_content):
            with pytest.raises(openai.NotFoundError):
                await call(video)


async def test_bodies_that_the_client_does_not_send(web: httpx.AsyncClient) -> None:
    made = await web.post("/videos", json={"prompt": PROMPT, "seconds": "4", "seed": 1})
    assert (made.status_code, made.json()["seed"]) == (200, 1)
    for body in (
        b"",
        b"[]",
        b"{",
        b'{"prompt": 1}',
        b'{"prompt": null}',
        b'{"prompt": "a", "seconds": 4}',
        b'{"prompt": "a", "seed": "1"}',
        b'{"prompt": "a", "input_reference": {"image_url": "data:image/png;base64,AAAA"}}',
        json.dumps({"prompt": "a", "model": None}).encode(),
    ):
        answer = await web.post(
            "/videos", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 400, body
        assert answer.json()["error"]["code"]
    files = {"video": ("a.mp4", b"x")}
    answer = await web.post("/videos", data={"prompt": PROMPT}, files=files)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_field")
    for path in ("/videos/edits", "/videos/extensions", "/videos/characters", "/videos/a/remix"):
        answer = await web.post(path, json={"prompt": PROMPT})
        assert answer.status_code in {404, 405}
        assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.fixture
async def files(client: AsyncOpenAI, web: httpx.AsyncClient) -> list[tuple[str, bytes]]:
    """Addresses of a job's and of a turn's video, and their bytes."""
    video = await client.videos.create_and_poll(prompt=PROMPT, **POLL)
    turn = (await web.post("/turns", json={"text": PROMPT, "stream": False})).json()
    paths = [f"/videos/{video.id}/content", turn["video"].removeprefix("/v1")]
    return [(path, (await web.get(path)).content) for path in paths]


async def test_parts_of_files(web: httpx.AsyncClient, files: list[tuple[str, bytes]]) -> None:
    for path, whole in files:
        size = len(whole)
        for asked, start, end in (
            ("bytes=0-99", 0, 100),
            ("bytes=100-", 100, size),
            ("bytes=-50", size - 50, size),
            (f"bytes=-{size * 2}", 0, size),
            (f"bytes={size - 1}-{size * 2}", size - 1, size),
            ("Bytes = 5-5", 5, 6),
            (f"bytes=0-9, {size + 5}-", 0, 10),  # of two, one exists
        ):
            part = await web.get(path, headers={"Range": asked})
            assert (part.status_code, part.content) == (206, whole[start:end]), asked
            assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
            assert part.headers["content-length"] == str(end - start)
        for ignored in (
            "bytes=",
            "bytes=-",
            "bytes=9-5",
            "bytes=a-b",
            "lines=1-2",
            "bytes=0-1,3-4",
        ):
            answer = await web.get(path, headers={"Range": ignored})
            assert (answer.status_code, answer.content) == (200, whole), ignored
        for beyond in (f"bytes={size}-", "bytes=-0", f"bytes={size}-,{size + 9}-"):
            refused = await web.get(path, headers={"Range": beyond})
            assert refused.status_code == 416, beyond
            assert refused.json()["error"]["code"] == "range_not_satisfiable"
            assert refused.headers["content-range"] == f"bytes */{size}"
        head = await web.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(size)
        assert head.headers["accept-ranges"] == "bytes"
        for current in (head.headers["etag"], head.headers["last-modified"]):
            same = await web.get(path, headers={"Range": "bytes=0-9", "If-Range": current})
            assert same.status_code == 206
        other = await web.get(path, headers={"Range": "bytes=0-9", "If-Range": '"old"'})
        assert (other.status_code, other.content) == (200, whole)


async def test_files_that_are_gone(
    web: httpx.AsyncClient, files: list[tuple[str, bytes]], tmp_path: Path
) -> None:
    for folder in ("videos", "clips"):
        shutil.rmtree(tmp_path / folder)
    codes = []
    for path, _ in files:
        answer = await web.get(path)
        assert answer.status_code == 404
        codes.append(answer.json()["error"]["code"])
    assert codes == ["video_expired", "no_video"]


async def test_a_real_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real engines, a portrait of the client's own, twice with one seed."""
    monkeypatch.setenv("E3RG_DATA", str(tmp_path))
    profile = load_profile("local")
    portrait = (BUILTIN / "henry" / "portrait.jpg").read_bytes()
    blank = cv2.imencode(".png", np.full((400, 400, 3), 200, np.uint8))[1].tobytes()
    async with (
        local_stages(profile) as stages,
        served(profile, stages) as address,
        AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0) as client,
    ):
        for file, code in ((b"not a picture", "portrait_unreadable"), (blank, "portrait_no_face")):
            with pytest.raises(openai.UnprocessableEntityError) as refused:
                await client.videos.create(prompt=PROMPT, input_reference=("x.png", file))
            assert (refused.value.code, refused.value.param) == (code, "input_reference")
        assert (await client.videos.list()).data == []
        clips = []
        for _ in range(2):
            seen = []
            video = await client.videos.create(
                prompt=PROMPT,
                seconds="4",
                input_reference=("me.jpg", portrait),
                extra_body={"seed": 7},
            )
            while video.status in {"queued", "in_progress"}:
                await asyncio.sleep(0.2)
                video = await client.videos.retrieve(video.id)
                seen.append(video.progress)
            # What it passes on its way is test_video_worker's: a fast machine is done at once.
            assert seen == sorted(seen)
            assert (video.status, video.error) == ("completed", None)
            clips.append((await client.videos.download_content(video.id)).content)
        (tmp_path / "video.mp4").write_bytes(clips[0])
        for variant in ("thumbnail", "spritesheet"):
            file = await client.videos.download_content(video.id, variant=variant)  # type: ignore[arg-type]
            (tmp_path / f"{variant}.jpg").write_bytes(file.content)
        pictures = [_packets(clip) for clip in clips]
        assert pictures[0] == pictures[1]
        report = measure_skew(clips[0])
        assert 1.0 < report.video_s < 6.0
        assert float(video.seconds) == report.frames / 25
        assert report.audio_s == pytest.approx(report.video_s, abs=0.05)
        assert report.skew_ms <= 40
        heard = await stages.understanding.transcribe(_sound(clips[0]))
        assert "sorry" in heard.text.lower()


def _packets(clip: bytes) -> list[bytes]:
    with av.open(io.BytesIO(clip)) as container:
        return [bytes(packet) for packet in container.demux(video=0) if packet.size]


def _sound(clip: bytes) -> Pcm:
    resampler = av.AudioResampler("s16", "mono", 16_000)
    with av.open(io.BytesIO(clip)) as container:
        frames = [part for frame in container.decode(audio=0) for part in resampler.resample(frame)]
    return Pcm(b"".join(frame.to_ndarray().tobytes() for frame in frames), 16_000)
