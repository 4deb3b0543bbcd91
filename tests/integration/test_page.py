"""The page in a real Chromium, against the real system.

`E3RG_PAGE=http://127.0.0.1:8000` uses a server that runs already.
"""

from __future__ import annotations

import io
import os
import wave
from collections.abc import Iterator
from pathlib import Path

import cv2
import httpx
import numpy as np
import pytest
from page_kit import CHROMIUM, PHONE, WIDE, Recording, launch, rest, say, visit, voice_file
from playwright.sync_api import Browser, Page, expect, sync_playwright

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.timeout(600),
]

expect.set_options(timeout=120_000)


@pytest.fixture(scope="module")
def address(request: pytest.FixtureRequest) -> str:
    given = os.environ.get("E3RG_PAGE")
    return given.rstrip("/") if given else str(request.getfixturevalue("server").address)


@pytest.fixture(scope="module")
def voice(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    body = {
        "model": "kokoro-82m",
        "voice": "am_michael",
        "input": "I lost my dog yesterday, and the house is so quiet now.",
        "response_format": "wav",
    }
    answer = httpx.post(f"{address}/v1/audio/speech", json=body, timeout=120).raise_for_status()
    with wave.open(io.BytesIO(answer.content)) as sound:
        # A header that was streamed does not know its length.
        speech = sound.readframes(60 * sound.getframerate())
        rate = sound.getframerate()
    return voice_file(tmp_path_factory.mktemp("voice"), [2.0, (speech, rate), 120.0])


@pytest.fixture(scope="module")
def browser(voice: Path) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright, voice=voice)
        yield browser
        browser.close()


def kept(folder: Path) -> Path:
    """Where pictures and recordings go; E3RG_SHOTS names a folder that stays."""
    return Path(os.environ.get("E3RG_SHOTS", folder))


def shot(page: Page, folder: Path, name: str) -> None:
    page.screenshot(path=kept(folder) / f"{name}.png")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_typed_turn_plays_with_captions_and_panels(
    browser: Browser, address: str, size: dict[str, int], tmp_path: Path
) -> None:
    with visit(browser, address, viewport=size) as page:
        recording = Recording(page)
        say(page, "I lost my dog yesterday and the house is so quiet.")
        page.wait_for_selector("#video.shown", timeout=120_000)
        expect(page.locator("#status")).to_contain_text("is speaking")
        expect(page.locator("#caption")).not_to_be_empty()
        caption = page.inner_text("#caption")
        shot(page, tmp_path, f"speaking-{size['width']}")
        assert page.evaluate("document.querySelector('#video').videoWidth") == 512
        rest(page)
        reply = page.inner_text("#log .listener span:not(.sr)")
        assert caption.split()[0] in reply
        page.click("#understood summary")
        expect(page.locator("#gist")).to_contain_text("%")
        expect(page.locator("#emotion tbody tr")).to_have_count(8)
        expect(page.locator("#emotion")).to_contain_text("From your words")
        expect(page.locator("#memory li").first).to_be_visible()
        expect(page.locator("#timings tbody tr")).to_have_count(6)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        shot(page, tmp_path, f"understood-{size['width']}")
        video = kept(tmp_path) / f"page-{size['width']}.mp4"
        recording.save(video)
        assert video.stat().st_size > 10_000


def test_spoken_turn_is_heard_and_answered(browser: Browser, address: str, tmp_path: Path) -> None:
    with visit(browser, address) as page:
        page.click("#microphone")
        expect(page.locator("#microphone")).to_have_attribute("aria-pressed", "true")
        page.click("#camera")
        expect(page.locator("#self")).to_be_visible()
        expect(page.locator("#log .you")).to_contain_text("dog")
        page.wait_for_selector("#video.shown", timeout=120_000)
        shot(page, tmp_path, "microphone-1280")
        expect(page.locator("#log .listener span:not(.sr)")).not_to_be_empty()
        page.click("#understood summary")
        expect(page.locator("#emotion")).to_contain_text("From your voice")
        page.click("#microphone")
        expect(page.locator("#microphone")).to_have_attribute("aria-pressed", "false")


def test_portrait_without_a_face_is_refused_at_its_field(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    with visit(browser, address, refused=True) as page:
        page.click("#add")
        grey = cv2.imencode(".png", np.full((400, 400, 3), 127, np.uint8))[1].tobytes()
        file = {"name": "grey.png", "mimeType": "image/png", "buffer": grey}
        page.set_input_files("#up-portrait", file)
        page.fill("#up-name", "Nobody")
        page.click("#up-send")
        expect(page.locator("#up-portrait-error")).to_contain_text("No face")
        expect(page.locator("#up-portrait")).to_have_attribute("aria-invalid", "true")
        expect(page.locator("#up-portrait")).to_be_focused()
        shot(page, tmp_path, "upload-1280")


def test_added_face_listens(browser: Browser, address: str) -> None:
    portrait = httpx.get(f"{address}/v1/identities/ruth/portrait", timeout=60).content
    name = "Page Test"
    httpx.delete(f"{address}/v1/identities/page-test", timeout=60)
    try:
        with visit(browser, address) as page:
            page.click("#add")
            file = {"name": "ruth.png", "mimeType": "image/png", "buffer": portrait}
            page.set_input_files("#up-portrait", file)
            page.fill("#up-name", name)
            page.select_option("#up-age", "senior")
            page.click("#up-send")
            expect(page.locator("#name")).to_have_text(name)
            chosen = page.locator("#identities input:checked")
            expect(chosen).to_be_focused()
            expect(chosen).to_have_value("page-test")
    finally:
        httpx.delete(f"{address}/v1/identities/page-test", timeout=60)
