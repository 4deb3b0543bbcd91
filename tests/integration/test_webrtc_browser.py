"""A real browser calls, hears and sees: Chromium with a fake microphone and camera.

Skipped where there is no Chromium. The pictures of the page are kept in the test's folder
(``--basetemp``), to be looked at.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from playwright.async_api import Page, async_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from media_samples import flash_and_beep
from scripted import Avatar, Script, Speech

from e3rg.config import load_profile
from e3rg.emotions.types import Delivery, Expression
from e3rg.inprocess import local_stages, served
from e3rg.media.encode import wav_header
from e3rg.stages.avatar.engine import RenderRequest, VideoChunk
from e3rg.stages.speech.engine import SpeechRequest, SpeechSegment
from e3rg.turn.state import Stages

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    # Sound and picture in real time between two processes: starved of its cores, a call may drop.
    pytest.mark.flaky(reruns=2),
]

SAID = "My dog died yesterday."
PAGE = """<!doctype html><meta charset=utf-8><title>call</title>
<style>body{margin:0;background:#246}video{width:512px;height:512px}</style>
<video id=v autoplay playsinline></video>
<script>
const state = window.state = {events: [], loud: 0, frames: [], skews: [], error: null};
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
async function start({microphone, camera}) {
  try {
    const ice = await (await fetch("/v1/realtime/ice")).json();
    const pc = window.pc = new RTCPeerConnection({iceServers: ice.ice_servers});
    if (microphone || camera) {
      const local = await navigator.mediaDevices.getUserMedia({audio: microphone, video: camera
        && {width: 320, height: 240, frameRate: 10}});
      for (const track of local.getTracks()) pc.addTrack(track, local);
    }
    if (!microphone) pc.addTransceiver("audio", {direction: "recvonly"});
    if (!camera) pc.addTransceiver("video", {direction: "recvonly"});
    const stream = new MediaStream();
    pc.ontrack = ({track}) => {
      stream.addTrack(track);
      v.srcObject = stream;
      if (track.kind === "audio") listen(stream);
    };
    const channel = window.channel = pc.createDataChannel("oai-events");
    pc.onconnectionstatechange = () => {
      if (pc.connectionState === "failed") state.error = "the connection failed";
    };
    channel.onmessage = ({data}) => state.events.push(JSON.parse(data));
    await pc.setLocalDescription(await pc.createOffer());
    while (pc.iceGatheringState !== "complete") await wait(20);
    state.offer = pc.localDescription.sdp;
    const response = await fetch("/v1/realtime/calls?model=e3rg", {
      method: "POST", headers: {"Content-Type": "application/sdp"}, body: state.offer});
    if (!response.ok) throw new Error(await response.text());
    state.call = response.headers.get("Location");
    state.answer = await response.text();
    await pc.setRemoteDescription({type: "answer", sdp: state.answer});
    watch(pc);
  } catch (error) { state.error = String(error); }
}
async function listen(stream) {
  const context = new AudioContext();
  const analyser = context.createAnalyser();
  context.createMediaStreamSource(new MediaStream(stream.getAudioTracks())).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  for (;;) {
    analyser.getFloatTimeDomainData(samples);
    const loud = Math.sqrt(samples.reduce((sum, x) => sum + x * x, 0) / samples.length);
    state.loud = Math.max(state.loud, loud);
    state.now = loud;
    await wait(20);
  }
}
async function watch(pc) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 64;
  const paint = canvas.getContext("2d", {willReadFrequently: true});
  for (;;) {
    await wait(100);
    if (v.videoWidth) {
      paint.drawImage(v, 0, 0, 64, 64);
      const data = paint.getImageData(0, 0, 64, 64).data;
      const grey = [];
      for (let i = 0; i < data.length; i += 4) grey.push(data[i + 1]);
      const mean = grey.reduce((a, b) => a + b) / grey.length;
      const spread = Math.sqrt(grey.reduce((a, b) => a + (b - mean) ** 2, 0) / grey.length);
      let mouth = 0;
      for (let y = 38; y < 52; y++) for (let x = 24; x < 40; x++) mouth += grey[64 * y + x];
      state.frames.push({mean, spread, mouth, at: performance.now()});
    }
    const play = {}, stats = {};
    for (const report of (await pc.getStats()).values()) {
      if (report.type !== "inbound-rtp") continue;
      stats[report.kind] = report;
      play[report.kind] = report.estimatedPlayoutTimestamp;
    }
    state.stats = stats;
    const said = state.events.filter((e) => e.type.startsWith("output_audio_buffer.")).length;
    if (said % 2 && play.audio && play.video) state.skews.push(Math.round(play.video - play.audio));
  }
}
</script>"""


async def open_page(page: Page, address: str) -> None:
    async def answer(route: Any) -> None:
        await route.fulfill(content_type="text/html", body=PAGE)

    await page.route("**/call-test", answer)
    await page.goto(f"{address}/call-test")


FLAGS = ("--no-sandbox", "--disable-gpu", "--autoplay-policy=no-user-gesture-required")
DEVICES = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")


async def event(page: Page, kind: str, seconds: float) -> dict[str, Any]:
    """The first event of a kind."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                state: dict[str, Any] = await page.evaluate("state")
                assert state["error"] is None, state["error"]
                for each in state["events"]:
                    if each["type"] == kind:
                        return dict(each)
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        kinds = [each["type"] for each in state["events"]]
        raise AssertionError(f"no {kind} within {seconds} s: {kinds}") from error


async def talk(stages: Stages, tmp_path: Path) -> dict[str, Any]:
    """Say something in a browser, hear the whole reply; gives what the page saw."""
    neutral = Delivery(Expression.NEUTRAL, 0.0)
    spoken = await stages.speech.synthesize(SpeechRequest(SAID, "am_michael", neutral))
    voice = np.frombuffer(spoken.audio.data, "<i2").astype(np.float32) / 32768
    sound = (soxr.resample(voice, spoken.audio.sample_rate, 48_000) * 32767).astype("<i2")
    quiet = np.zeros(48_000, "<i2")
    data = np.concatenate([*[quiet] * 4, sound, *[quiet] * 120]).tobytes()
    wav = tmp_path / "said.wav"
    wav.write_bytes(wav_header(48_000, len(data) // 2) + data)
    profile = load_profile("local")
    brief = profile.model_copy(
        update={"turn": profile.turn.model_copy(update={"max_reply_sentences": 2})}
    )
    flags = [*FLAGS, *DEVICES, f"--use-file-for-fake-audio-capture={wav}%noloop"]
    async with (
        served(brief, stages) as address,
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=CHROMIUM, args=flags) as browser,
    ):
        page = await browser.new_page(viewport={"width": 512, "height": 512})
        await open_page(page, address)
        await page.evaluate("start({microphone: true, camera: true})")
        created = await event(page, "session.created", 30)
        assert created["session"]["e3rg"]["video"] is True
        await page.wait_for_function("state.frames.length > 3")
        await page.screenshot(path=tmp_path / "rest.png")
        heard = await event(page, "conversation.item.input_audio_transcription.completed", 120)
        assert "dog" in heard["transcript"].lower(), heard
        await event(page, "output_audio_buffer.started", 240)
        await page.wait_for_function("state.now > 0.02", timeout=60_000)
        await page.screenshot(path=tmp_path / "speaking.png")
        done = await event(page, "response.done", 240)
        assert done["response"]["status"] == "completed"
        await event(page, "output_audio_buffer.stopped", 120)
        await asyncio.sleep(1)
        await page.screenshot(path=tmp_path / "after.png")
        state: dict[str, Any] = await page.evaluate("state")
        await page.evaluate("pc.close()")
        return state


@pytest.mark.timeout(900)
async def test_a_browser_talks_hears_and_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("E3RG_DATA", str(tmp_path / "data"))
    async with local_stages(load_profile("local")) as stages:
        state = await talk(stages, tmp_path)
    stats = state["stats"]
    (tmp_path / "state.json").write_text(json.dumps(state))
    assert stats["audio"]["packetsReceived"] > 200
    assert stats["video"]["framesDecoded"] > 50
    assert stats["video"]["frameWidth"] == 512
    assert state["loud"] > 0.03, "the reply was silent"
    assert all(frame["mean"] > 20 and frame["spread"] > 10 for frame in state["frames"]), "black"
    mouths = [frame["mouth"] for frame in state["frames"]]
    assert max(mouths) - min(mouths) > 500, "the mouth did not move"
    tell_skew(state)


def tell_skew(state: dict[str, Any]) -> float:
    """How near picture and sound came to each other while a reply played, milliseconds.

    By the browser's own account (RTCInboundRtpStreamStats.estimatedPlayoutTimestamp). Browsers take
    some seconds of the sender's reports to bring both in step, and longer on a busy machine; what
    we send is measured in tests/unit/test_webrtc_peer.py.
    """
    skews: list[float] = state["skews"]
    print(f"picture ahead of sound by {statistics.median(skews):.0f} ms (median), {skews}")
    return min(map(abs, skews))


FLASHES, BEEPS = flash_and_beep(0, 150)


@dataclass
class Beeps(Speech):
    """Says everything as beeps, one a second."""

    async def synthesize(self, request: SpeechRequest) -> SpeechSegment:
        return SpeechSegment(BEEPS, ())


@dataclass
class Flashes(Avatar):
    """Shows everything as flashes, one a second."""

    async def render(self, request: RenderRequest) -> AsyncGenerator[VideoChunk, None]:
        for first in range(0, len(FLASHES), 10):
            yield VideoChunk(tuple(FLASHES[first : first + 10]), request.first_frame + first)


@pytest.mark.parametrize("codec", ["H264", "VP8"])
async def test_a_browser_that_only_listens(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a microphone a browser hides its addresses behind mDNS names."""
    monkeypatch.setenv("E3RG_DATA", str(tmp_path / "data"))
    script = Script(reply="I am so sorry. He was a friend to you.")
    stages = replace(script.stages(), speech=Beeps(script), avatar=Flashes(script))
    async with (
        served(load_profile("local"), stages) as address,
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS]) as browser,
    ):
        page = await browser.new_page()
        await open_page(page, address)
        if codec == "VP8":
            await page.evaluate(
                """() => { const of = RTCRtpReceiver.getCapabilities.bind(RTCRtpReceiver);
                const add = RTCPeerConnection.prototype.addTransceiver;
                RTCPeerConnection.prototype.addTransceiver = function (kind, init) {
                  const made = add.call(this, kind, init);
                  if (kind === "video") made.setCodecPreferences(
                    of("video").codecs.filter((c) => c.mimeType === "video/VP8"));
                  return made; }; }"""
            )
        await page.evaluate("start({microphone: false, camera: false})")
        await event(page, "session.created", 30)
        assert ".local" in (await page.evaluate("state"))["offer"]
        await asyncio.sleep(3)
        await page.evaluate(
            """() => { channel.send(JSON.stringify({type: "conversation.item.create", item: {
              type: "message", role: "user", content: [{type: "input_text", text: "Hello"}]}}));
            channel.send(JSON.stringify({type: "response.create"})); }"""
        )
        await event(page, "output_audio_buffer.stopped", 60)
        state = await page.evaluate("state")
        codecs = await page.evaluate(
            """async () => [...(await pc.getStats()).values()]
              .filter((r) => r.type === "codec").map((r) => r.mimeType)"""
        )
        assert f"video/{codec}" in codecs and "audio/opus" in codecs
        assert state["stats"]["video"]["framesDecoded"] > 50
        assert state["loud"] > 0.05
        assert any(frame["mean"] > 200 for frame in state["frames"])
        assert tell_skew(state) <= 100
        # Hanging up is seen by the page.
        status = await page.evaluate(
            "async () => (await fetch(`${state.call}/hangup`, {method: 'POST'})).status"
        )
        assert status == 200
        await page.wait_for_function("channel.readyState === 'closed'")
