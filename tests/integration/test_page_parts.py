"""The page in a real Chromium, against stages that do what a test tells them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from page_kit import CHROMIUM, PHONE, WIDE, launch, rest, say, serving, visit
from playwright.sync_api import Browser, Page, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from scripted import REPLY, Script

from e3rg.config import load_profile
from e3rg.errors import E3RGError

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

expect.set_options(timeout=60_000)

LONG = " ".join(f"This is sentence number {n} of a long answer." for n in range(1, 5))
WORDS = "#log .listener span:not(.sr)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Script:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path / "data"))
    return Script()


@pytest.fixture
def address(script: Script) -> Iterator[str]:
    with serving(load_profile("local"), script.stages()) as (address, _):
        yield address


def boxes(page: Page) -> list[Any]:
    return [page.locator(name).bounding_box() for name in ("#frame", "#scroll", "#form", "#who")]


def test_a_turn_from_its_first_word_to_its_end(browser: Browser, address: str) -> None:
    counting = """
      window.open_urls = new Set();
      const make = URL.createObjectURL, drop = URL.revokeObjectURL;
      URL.createObjectURL = (of) => { const url = make(of); open_urls.add(url); return url; };
      URL.revokeObjectURL = (url) => { open_urls.delete(url); drop(url); };
    """
    with visit(browser, address, init=counting) as page:
        before = boxes(page)
        assert page.get_attribute("#video", "poster") == "/v1/identities/clara/portrait"
        say(page, "I lost my dog yesterday.")
        expect(page.locator("#log .you")).to_have_text("You: I lost my dog yesterday.")
        page.wait_for_selector("#video.shown")
        # What is still written is no part of the log, which announces whole lines only.
        expect(page.locator("#pending .listener")).to_have_attribute("aria-busy", "true")
        expect(page.locator("#caption")).to_have_text("I am so sorry.")
        assert boxes(page) == before
        expect(page.locator("#caption")).to_have_text("Do you want to tell me about him?")
        rest(page)
        expect(page.locator(WORDS)).to_have_text(REPLY)
        expect(page.locator("#caption")).to_be_empty()
        expect(page.locator("#pending > *")).to_have_count(0)
        # It was heard, and what the person wrote they know: neither is read to them again.
        for line in page.locator("#log p").all():
            assert line.get_attribute("aria-live") == "off"
        expect(page.locator("#gist")).to_have_text("devastated (70 %)")
        expect(page.locator("#memory")).to_contain_text("My cat died.")
        assert "feeling" in (page.locator("#timings tbody th").first.text_content() or "")
        assert page.evaluate("window.open_urls.size") == 0
        assert boxes(page) == before


def test_conversation_goes_on_and_begins_anew(
    browser: Browser, address: str, script: Script
) -> None:
    def history() -> int:
        return len([what for name, what in script.calls if name == "dialogue"][-1].messages)

    with visit(browser, address) as page:
        say(page, "Hello there.")
        rest(page)
        alone = history()
        say(page, "It is me again.")
        rest(page)
        assert history() == alone + 2
        page.click("#new")
        expect(page.locator("#log p")).to_have_count(0)
        expect(page.locator("#text")).to_be_focused()
        say(page, "Somebody else now.")
        rest(page)
        assert history() == alone
        page.check("input[name=identity][value=daniel]", force=True)
        expect(page.locator("#name")).to_have_text("Daniel")
        expect(page.locator("#log .note")).to_have_text("Daniel listens now.")


@pytest.mark.parametrize("how", ["button", "escape", "typing"])
def test_interrupting(browser: Browser, address: str, script: Script, how: str) -> None:
    script.reply = LONG
    with visit(browser, address) as page:
        say(page, "Tell me something long.")
        page.wait_for_selector("#video.shown")
        script.reply = REPLY
        if how == "button":
            page.click("#stop")
        elif how == "escape":
            page.keyboard.press("Escape")
        else:
            say(page, "No, wait.")
        expect(page.locator(WORDS).first).to_contain_text("(interrupted)")
        if how != "typing":
            expect(page.locator("#stop")).to_be_disabled()
            assert page.evaluate("document.querySelector('#video').paused")
            expect(page.locator("#caption")).to_be_empty()
            say(page, "And now?")
        rest(page)
        expect(page.locator(WORDS).last).to_have_text(REPLY)
        assert script.idle


def test_captions_can_be_switched_off(browser: Browser, address: str, script: Script) -> None:
    script.reply = LONG
    with visit(browser, address) as page:
        page.click("#captions")
        expect(page.locator("#captions")).to_have_attribute("aria-pressed", "false")
        say(page, "Hello.")
        page.wait_for_selector("#video.shown")
        page.wait_for_timeout(500)
        expect(page.locator("#caption")).to_be_hidden()
        page.click("#captions")
        expect(page.locator("#caption")).to_be_visible()


@pytest.mark.parametrize("missing", ["avatar", "speech"])
def test_less_than_was_asked_is_said(
    browser: Browser, address: str, script: Script, missing: str
) -> None:
    fault = E3RGError(f"{missing}_failed", "it broke", status=500)
    script.fail = {missing: fault, "still": fault}
    with visit(browser, address) as page:
        say(page, "Hello.")
        if missing == "avatar":
            expect(page.locator("#log .note")).to_contain_text("no picture just now")
            # Its sound is heard, and captions go with the sound.
            expect(page.locator("#caption")).not_to_be_empty()
        else:
            expect(page.locator("#log .note")).to_contain_text("read the answer")
        rest(page)
        expect(page.locator(WORDS)).to_have_text(REPLY)
        line = page.locator("#log .listener")
        # What could not be heard is read to those who do not see it.
        assert line.get_attribute("aria-live") == ("off" if missing == "avatar" else None)


@pytest.mark.parametrize("wanted", ["audio", "text"])
def test_an_answer_without_pictures(
    browser: Browser, address: str, script: Script, wanted: str
) -> None:
    with visit(browser, address) as page:
        page.click("#settings > summary")
        page.check(f"input[name=reply][value={wanted}]")
        say(page, "Hello.")
        if wanted == "audio":
            expect(page.locator("#status")).to_have_text("Clara is speaking.")
            expect(page.locator("#caption")).to_have_text("I am so sorry.")
        rest(page)
        expect(page.locator(WORDS)).to_have_text(REPLY)
        line = page.locator("#log .listener")
        assert line.get_attribute("aria-live") == ("off" if wanted == "audio" else None)
        assert page.get_attribute("#video", "class") in (None, "")
    assert not [name for name, _ in script.calls if name == "avatar"]


def test_what_was_told_is_remembered_only_if_asked(
    browser: Browser, address: str, script: Script
) -> None:
    with visit(browser, address) as page:
        say(page, "Nobody knows me.")
        rest(page)
        assert not script.episodes
        page.click("#settings > summary")
        page.check("input[name=remember]")
        say(page, "I have a sister.")
        rest(page)
        (episode,) = script.episodes
        assert episode.text == "I have a sister."
        page.reload()
        page.wait_for_selector("#identities label")
        assert page.is_checked("input[name=remember]")
        say(page, "She is older.")
        rest(page)
        assert script.episodes[1].user == episode.user
        page.click("#settings > summary")
        page.uncheck("input[name=remember]")
        say(page, "Forget that.")
        rest(page)
        assert len(script.episodes) == 2
        assert page.evaluate("localStorage.getItem('e3rg.user')") is None


def test_a_browser_without_mediasource_plays_the_finished_file(
    browser: Browser, address: str
) -> None:
    without = "delete window.MediaSource; delete window.ManagedMediaSource;"
    with visit(browser, address, init=without) as page:
        say(page, "Hello.")
        page.wait_for_selector("#video.shown")
        assert "/v1/turns/turn_" in page.evaluate("document.querySelector('#video').currentSrc")
        rest(page)
        expect(page.locator(WORDS)).to_have_text(REPLY)


def test_errors_in_plain_words_and_nothing_typed_is_lost(browser: Browser, script: Script) -> None:
    with (
        serving(load_profile("local"), script.stages()) as (address, end),
        visit(browser, address, refused=True) as page,
    ):
        script.fail = {"dialogue": E3RGError("dialogue_failed", "no reply", status=502)}
        say(page, "Can you hear me?")
        expect(page.locator("#trouble")).to_contain_text("Something went wrong on our side")
        expect(page.locator("#text")).to_have_value("Can you hear me?")
        expect(page.locator("#stop")).to_be_disabled()
        script.fail = {}
        page.press("#text", "Enter")
        expect(page.locator("#trouble")).to_be_empty()
        rest(page)
        expect(page.locator(WORDS)).to_have_text(REPLY)
        page.fill("#text", "Привет, как дела?")
        page.press("#text", "Enter")
        expect(page.locator("#trouble")).to_contain_text("Only English is understood")
        end.set()
        page.wait_for_timeout(1500)
        page.fill("#text", "Are you there?")
        page.press("#text", "Enter")
        expect(page.locator("#trouble")).to_contain_text("connection to the server was lost")
        expect(page.locator("#text")).to_have_value("Are you there?")


def test_a_lost_session_is_taken_up_again(browser: Browser, address: str) -> None:
    # The server's end of the socket, closed by what the page is told of it.
    keep = """
      const Native = WebSocket;
      window.WebSocket = class extends Native {
        constructor(...all) { super(...all); window.socket = this; }
      };
    """
    with visit(browser, address, init=keep) as page:
        page.click("#microphone")
        expect(page.locator("#status")).to_have_text("Clara is listening: just speak.")
        page.evaluate("window.socket.close()")
        expect(page.locator("#trouble")).to_contain_text("connection to the server was lost")
        page.click("#trouble button")
        expect(page.locator("#status")).to_have_text("Clara is listening: just speak.")
        expect(page.locator("#trouble")).to_be_empty()
        # Typing goes by the session, too.
        say(page, "I type now.")
        page.wait_for_selector("#video.shown")
        rest(page)
        expect(page.locator(WORDS)).to_have_text(REPLY)


@pytest.mark.parametrize("device", ["microphone", "camera"])
def test_a_refused_device(browser: Browser, address: str, device: str) -> None:
    refusing = """
      navigator.mediaDevices.getUserMedia = async () => {
        throw new DOMException("Permission denied", "NotAllowedError");
      };
    """
    with visit(browser, address, init=refusing) as page:
        page.dblclick(f"#{device}")
        expect(page.locator("#trouble")).to_contain_text(f"not allowed to use the {device}")
        expect(page.locator(f"#{device}")).to_have_attribute("aria-pressed", "false")
        say(page, "Then I type.")
        rest(page)
        expect(page.locator(WORDS)).to_have_text(REPLY)


def test_by_keyboard_alone(browser: Browser, address: str) -> None:
    with visit(browser, address) as page:
        order = []
        for _ in range(13):
            page.keyboard.press("Tab")
            order.append(
                page.evaluate(
                    "(({id, name, tagName, className}) => id || name || className || tagName)"
                    "(document.activeElement)"
                )
            )
            shown = page.evaluate("document.activeElement.matches(':focus-visible')")
            assert shown, order
        wanted = ["skip", "captions", "scroll", "text", "microphone", "camera", "send", "SUMMARY"]
        assert order[:8] == wanted
        assert order[8:] == ["SUMMARY", "identity", "add", "new", "SUMMARY"]
        page.focus("input[name=identity]:checked")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#name")).to_have_text("Daniel")
        page.focus("#add")
        page.keyboard.press("Enter")
        expect(page.locator("#dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#dialog")).to_be_hidden()
        expect(page.locator("#add")).to_be_focused()
        page.focus(".skip")
        page.keyboard.press("Enter")
        page.keyboard.type("Hello by keyboard.")
        page.keyboard.press("Enter")
        page.wait_for_selector("#video.shown")
        page.keyboard.press("Escape")
        expect(page.locator(WORDS)).to_contain_text("(interrupted)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing(
    browser: Browser, address: str, size: dict[str, int], scheme: str
) -> None:
    with visit(
        browser, address, viewport=size, color_scheme=scheme, reduced_motion="reduce"
    ) as page:
        say(page, "Hello.")
        rest(page)
        for fold in ("#understood", "#settings"):
            page.click(f"{fold} > summary")
        check(page)
        page.click("#add")
        page.click("#up-send")
        expect(page.locator("#up-name-error")).not_to_be_empty()
        check(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def check(page: Page) -> None:
    found = Axe().run(page).response["violations"]
    assert not [(fault["id"], fault["nodes"][0]["html"]) for fault in found]


def test_events_and_captions_are_cut_right(browser: Browser, address: str) -> None:
    with visit(browser, address) as page:
        events = page.evaluate(
            """async () => {
              const { EventParser } = await import("/page/sse.js");
              const parser = new EventParser(), found = [];
              const stream = ": ping\\n\\nevent: a\\r\\ndata: 1\\r\\n\\r\\ndata: 2\\ndata: 3\\n\\n"
                + "event: b\\rdata:4\\r\\r";
              for (const char of stream) found.push(...parser.feed(char));
              return [...found, ...parser.feed("\\n")].map(({event, data}) => [event, data]);
            }"""
        )
        assert events == [["a", "1"], ["message", "2\n3"], ["b", "4"]]
        cues = page.evaluate(
            """async () => {
              const { cues } = await import("/page/captions.js");
              return cues({ text: "word ".repeat(40), start: 2, duration: 10 });
            }"""
        )
        assert len(cues) == 3
        assert max(len(cue["text"]) for cue in cues) <= 84
        assert cues[0]["start"] == 2
        assert cues[-1]["end"] == pytest.approx(12)
        assert " ".join(cue["text"] for cue in cues).split() == ["word"] * 40


@pytest.mark.parametrize("rate", [16_000, 24_000, 44_100, 48_000, 96_000])
def test_microphone_is_resampled_without_aliases(browser: Browser, address: str, rate: int) -> None:
    """A tone below 12 kHz passes, one above is gone; whatever the pieces that it comes in."""
    with visit(browser, address) as page:
        levels = page.evaluate(
            """async (rate) => {
              const { Resampler } = await import("/page/capture.js");
              return [1000, 6000, 14500].filter((hertz) => hertz < rate / 2).map((hertz) => {
                const resampler = new Resampler(rate), all = [];
                for (let at = 0; at < rate; at += 128) {
                  const piece = new Float32Array(Math.min(128, rate - at));
                  for (let i = 0; i < piece.length; i += 1)
                    piece[i] = Math.sin((2 * Math.PI * hertz * (at + i)) / rate);
                  all.push(...resampler.feed(piece));
                }
                const body = all.slice(2000, -2000);
                const power = body.reduce((sum, x) => sum + x * x, 0) / body.length;
                return [hertz, all.length, Math.sqrt(2 * power)];
              });
            }""",
            rate,
        )
        for hertz, count, level in levels:
            assert abs(count - 24_000) < 60
            assert level == pytest.approx(1 if hertz < 12_000 else 0, abs=0.02), hertz
