"""A real browser's MediaSource takes the muxer's output. Skipped where there is no Chromium."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from media_samples import RATE, flash_and_beep, jpeg

from e3rg.media.mux import FragmentedMp4Muxer
from e3rg.media.segment_encoder import encode_still
from e3rg.media.types import Pcm

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAGE = """<!doctype html><video id=v muted></video><script>
const v = document.getElementById("v"), log = [];
const report = (extra) => fetch("/result", {method: "POST", body: JSON.stringify({
  supported: MediaSource.isTypeSupported(TYPE), readyState: source.readyState,
  duration: source.duration, error: v.error && v.error.message, log,
  buffered: [...Array(v.buffered.length).keys()].map(i => [v.buffered.start(i), v.buffered.end(i)]),
  width: v.videoWidth, height: v.videoHeight, time: v.currentTime, ...extra})});
const source = new MediaSource();
v.src = URL.createObjectURL(source);
v.onerror = () => report({});
source.onsourceopen = async () => {
  try {
    const buffer = source.addSourceBuffer(TYPE);
    for (let i = 0; i < PARTS; i++) {
      const data = await (await fetch("/part/" + i)).arrayBuffer();
      const done = new Promise((ok, no) => { buffer.onupdateend = ok; buffer.onerror = no; });
      buffer.appendBuffer(data);
      await done;
      log.push([...Array(buffer.buffered.length).keys()].map(
        k => [buffer.buffered.start(k), buffer.buffered.end(k)]));
    }
    source.endOfStream();
    v.playbackRate = 8;
    v.onended = () => report({ended: true, frames: v.getVideoPlaybackQuality().totalVideoFrames,
      dropped: v.getVideoPlaybackQuality().corruptedVideoFrames});
    await v.play();
  } catch (error) { report({error: String(error)}); }
};
</script>"""


def play(parts: list[bytes], mime_type: str, profile: Path) -> dict[str, Any]:
    """Append the parts in Chromium, play to the end, and return what the page reports."""
    done = threading.Event()
    result: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/part/"):
                body = parts[int(self.path.rsplit("/", 1)[1])]
            else:
                page = PAGE.replace("TYPE", json.dumps(mime_type))
                body = page.replace("PARTS", str(len(parts))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            result.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()
            done.set()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    assert CHROMIUM
    flags = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --disable-dev-shm-usage "
        "--autoplay-policy=no-user-gesture-required"
    )
    browser = subprocess.Popen(
        [
            CHROMIUM,
            *flags.split(),
            f"--user-data-dir={profile}",
            f"http://127.0.0.1:{server.server_port}/",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert done.wait(90), "the page did not report"
    finally:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()
        server.shutdown()
        thread.join()
        server.server_close()
    return result


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_browser_plays_fragments(tmp_path: Path) -> None:
    muxer = FragmentedMp4Muxer()
    parts, first = [], 0
    for count in (37, 1, 50, 13):
        packets, pcm = flash_and_beep(first, count)
        first += count
        parts.append(muxer.write(packets, pcm))
    parts.append(muxer.finish())
    report = play(parts, muxer.mime_type, tmp_path)
    assert report["error"] is None, report
    assert report["supported"] and report["ended"], report
    assert len(report["buffered"]) == 1, report
    assert report["buffered"][0] == pytest.approx([0, first / 25], abs=0.001)
    assert report["duration"] == pytest.approx(first / 25, abs=0.001)
    assert (report["width"], report["height"]) == (512, 512)
    # While it is made, each append prolongs one range; sound lags by less than three AAC frames.
    assert all(len(ranges) == 1 for ranges in report["log"])
    ends = [ranges[0][1] for ranges in report["log"]]
    lags = [frames / 25 - end for frames, end in zip((37, 38, 88, 101), ends[:-1], strict=True)]
    assert all(0 <= lag < 3 * 1024 / RATE for lag in lags), lags


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_browser_plays_sound_alone_and_a_change_to_a_still(tmp_path: Path) -> None:
    sound = FragmentedMp4Muxer(video=False)
    pcm = flash_and_beep(0, 30)[1]
    report = play([sound.write((), pcm), sound.finish()], sound.mime_type, tmp_path / "a")
    assert report["error"] is None and report["ended"], report
    assert report["buffered"][0] == pytest.approx([0, 1.2], abs=0.001)

    # The still has other parameter sets, so the stream goes on behind a second init segment.
    packets, pcm = flash_and_beep(0, 30)
    muxer = FragmentedMp4Muxer()
    parts = [muxer.write(packets, pcm)]
    parts.append(muxer.write(encode_still(jpeg(512), 25), Pcm(bytes(2 * RATE), RATE)))
    assert parts[1][4:8] == b"ftyp"
    report = play([*parts, muxer.finish()], muxer.mime_type, tmp_path / "b")
    assert report["error"] is None and report["ended"], report
    assert report["buffered"][0] == pytest.approx([0, 2.2], abs=0.001)
