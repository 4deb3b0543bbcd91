"""Visits to the page in a real Chromium: what it must never do is watched on every visit."""

from __future__ import annotations

import asyncio
import base64
import io
import shutil
import threading
import time
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import av
from av.video.frame import PictureType
from playwright.sync_api import Browser, BrowserContext, Page, Playwright

from e3rg.config import Profile
from e3rg.inprocess import served
from e3rg.turn.state import Stages

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDE = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}


def launch(playwright: Playwright, *, voice: Path | None = None) -> Browser:
    """A browser with a camera and a microphone that are not there; `voice` is heard once."""
    flags = ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    if voice is not None:
        flags.append(f"--use-file-for-fake-audio-capture={voice}%noloop")
    return playwright.chromium.launch(executable_path=CHROMIUM, args=flags)


@contextmanager
def visit(
    browser: Browser,
    address: str,
    *,
    refused: bool = False,
    init: str = "",
    **context: Any,
) -> Iterator[Page]:
    """Open the page; at the end nothing may have gone wrong in it.

    Args:
        browser: see launch.
        address: of the server.
        refused: the server is expected to refuse something, which browsers report as an error.
        init: a script that runs before the page's own.
        context: of the browser's context.
    """
    opened: BrowserContext = browser.new_context(**{"viewport": WIDE, **context})
    page = opened.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("crash", lambda: problems.append("crash"))

    def console(message: Any) -> None:
        by_server = (
            message.text.startswith("Failed to load resource") or "WebSocket" in message.text
        )
        if message.type in ("error", "warning") and not (refused and by_server):
            problems.append(f"console: {message.text}")

    page.on("console", console)
    host = urlsplit(address).netloc

    def request(sent: Any) -> None:
        url = urlsplit(sent.url)
        if url.scheme not in ("data", "blob") and url.netloc != host:
            problems.append(f"request to another host: {sent.url}")

    opened.on("request", request)
    if init:
        page.add_init_script(init)
    try:
        page.goto(f"{address}/")
        page.wait_for_selector("#identities label")
        yield page
        assert not problems, problems
    finally:
        opened.close()


def say(page: Page, text: str) -> None:
    """Type something and send it by the keyboard."""
    page.fill("#text", text)
    page.press("#text", "Enter")


def rest(page: Page, timeout_s: float = 120) -> None:
    """Return when nothing is made or played any more."""
    page.wait_for_selector("#stop:disabled", timeout=timeout_s * 1000)


def voice_file(folder: Path, parts: list[float | tuple[bytes, int]]) -> Path:
    """A sound file of pauses (seconds) and speech (PCM16 and its rate, all the same)."""
    rate = next(part[1] for part in parts if isinstance(part, tuple))
    path = folder / "voice.wav"
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        for part in parts:
            out.writeframes(part[0] if isinstance(part, tuple) else bytes(2 * int(rate * part)))
    return path


@contextmanager
def serving(profile: Profile, stages: Stages) -> Iterator[tuple[str, threading.Event]]:
    """Serve stages from a thread of this process.

    Yields:
        The address, and an event that ends the server.
    """
    address: list[str] = []
    ready, end = threading.Event(), threading.Event()

    async def run() -> None:
        async with served(profile, stages) as where:
            address.append(where)
            ready.set()
            while not end.is_set():
                await asyncio.sleep(0.05)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert ready.wait(30), "the server did not start"
        yield address[0], end
    finally:
        end.set()
        thread.join(30)
    assert not thread.is_alive(), "the server did not end"


class Recording:
    """A recording of a page, as MP4 (Chrome DevTools Protocol, Page.startScreencast)."""

    def __init__(self, page: Page) -> None:
        self._frames: list[tuple[float, bytes]] = []
        size = page.viewport_size or WIDE
        self._size = size["width"] // 2 * 2, size["height"] // 2 * 2
        self._session = page.context.new_cdp_session(page)
        self._session.on("Page.screencastFrame", self._take)
        self._session.send("Page.startScreencast", {"format": "jpeg", "quality": 80})

    def _take(self, frame: dict[str, Any]) -> None:
        self._frames.append((time.monotonic(), base64.b64decode(frame["data"])))
        self._session.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    def save(self, path: Path) -> None:
        """Write what was seen; each picture stays until the next one."""
        self._session.send("Page.stopScreencast")
        start = self._frames[0][0]
        with av.open(str(path), "w") as out:
            stream = out.add_stream("libx264", rate=25, options={"crf": "30", "preset": "slow"})
            stream.pix_fmt = "yuv420p"
            stream.width, stream.height = self._size
            last = -1
            for moment, jpeg in self._frames:
                with av.open(io.BytesIO(jpeg), format="mjpeg") as picture:
                    image = next(picture.decode(video=0)).reformat(*self._size, "yuv420p")
                last = image.pts = max(last + 1, round((moment - start) * 25))
                image.time_base = Fraction(1, 25)
                image.pict_type = PictureType.NONE  # a JPEG's would make each a key frame
                out.mux(stream.encode(image))
            out.mux(stream.encode(None))
