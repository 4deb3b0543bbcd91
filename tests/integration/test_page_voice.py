"""Talking to the page: real speech in a fake microphone, real voice activity detection, and stages
that do what a test tells them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_kit import CHROMIUM, launch, rest, serving, visit, voice_file
from playwright.sync_api import Browser, Page, WebSocket, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from scripted import Script

from e3rg.config import load_profile
from e3rg.emotions.types import Delivery, Expression
from e3rg.engines import load_engine
from e3rg.local_context import engine_context
from e3rg.stages.speech.engine import SpeechRequest
from e3rg.stages.speech.registry import ENGINES

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    # Sound and picture in real time between two processes: starved of its cores, a call may drop.
    pytest.mark.flaky(reruns=2),
]

expect.set_options(timeout=60_000)

LONG = " ".join(
    f"This is sentence number {n} of an answer that goes on for a good while, and on and on."
    for n in range(1, 5)
)
WORDS = "#log .listener span:not(.sr)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    config = load_profile("local").stages.speech
    engine = load_engine(ENGINES, config.engine, engine_context(), config.options)
    try:
        calm = Delivery(Expression.NEUTRAL, 0.0)
        words = "I lost my dog yesterday, and the house is so quiet now."
        said = asyncio.run(engine.synthesize(SpeechRequest(words, "am_michael", calm))).audio
    finally:
        engine.close()
    speech = (said.data, said.sample_rate)
    # The second time the answer to the first is being spoken.
    voice = voice_file(tmp_path_factory.mktemp("voice"), [6.0, speech, 8.0, speech, 120.0])
    with sync_playwright() as playwright:
        browser = launch(playwright, voice=voice)
        yield browser
        browser.close()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Script:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path / "data"))
    return Script(reply=LONG)


@pytest.fixture
def address(script: Script) -> Iterator[str]:
    with serving(load_profile("local"), script.stages()) as (address, _):
        yield address


def connect_by(page: Page, connection: str) -> None:
    page.click("#settings > summary")
    page.check(f"input[name=connection][value={connection}]")
    page.click("#settings > summary")


@pytest.mark.parametrize("connection", ["websocket", "webrtc"])
def test_speaking_interrupts_the_answer(
    browser: Browser, address: str, script: Script, connection: str
) -> None:
    sent: list[dict[str, Any]] = []

    def watch(socket: WebSocket) -> None:
        socket.on("framesent", lambda frame: sent.append(json.loads(frame)))

    with visit(browser, address) as page:
        page.on("websocket", watch)
        connect_by(page, connection)
        page.click("#microphone")
        page.click("#camera")
        expect(page.locator("#self")).to_be_visible()
        expect(page.locator("#status")).to_contain_text("hears you")
        expect(page.locator("#log .you")).to_have_text("You: I lost my dog.")
        expect(page.locator("#status")).to_have_text("Clara is speaking.")
        expect(page.locator("#caption")).to_contain_text("sentence number 1")
        # The person speaks again.
        expect(page.locator(WORDS).first).to_contain_text("(interrupted)")
        expect(page.locator("#log .you")).to_have_count(2)
        rest(page)
        expect(page.locator(WORDS)).to_have_count(2)
        utterances = [what for name, what in script.calls if name == "understanding"]
        assert len(utterances) == 2
        assert utterances[0].audio is not None
        assert utterances[0].frames, "the camera's stills did not come"
        page.click("#microphone")
        page.click("#camera")
        expect(page.locator("#self")).to_be_hidden()
        assert page.evaluate("document.querySelector('#self').srcObject") is None
    assert script.idle
    if connection == "websocket":
        (cut,) = [event for event in sent if event["type"] == "conversation.item.truncate"]
        assert 500 < cut["audio_end_ms"] < 15_000
        pieces = [event for event in sent if event["type"] == "input_audio_buffer.append"]
        assert all(len(piece["audio"]) == 3840 for piece in pieces), "60 ms of PCM16 at 24 kHz each"
