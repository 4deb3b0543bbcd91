"""Every example of docs/clients.md, as it stands, in the clients' own environment.

An example is a fenced block after a comment that says what becomes of it: ``run`` (with a name), or
``file`` (written beside the examples, under its name). All run in one folder against the running
system; what they print and write is then looked at.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jiwer
import openai
import pytest
from conftest import Server
from playwright.async_api import async_playwright

from e3rg.media.probe import measure_skew

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "clients.md"
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ASKED = "I lost my dog yesterday and I miss him so much."
_LIMIT_S = 400
_BLOCK = re.compile(
    r"^<!-- (?P<use>\w+): (?P<name>\S+) -->\n```(?P<language>\w+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Example:
    use: str
    name: str
    language: str
    code: str


EXAMPLES = [Example(**match.groupdict()) for match in _BLOCK.finditer(GUIDE.read_text())]
RUN = {each.name: each for each in EXAMPLES if each.use == "run"}


@dataclass(frozen=True)
class Desk:
    """The folder of all examples, and the system they speak to."""

    folder: Path
    server: Server

    @property
    def environment(self) -> dict[str, str]:
        """No key, address or proxy of the machine's owner."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "OPENAI_BASE_URL": f"{self.server.address}/v1",
            "OPENAI_API_KEY": "any",
        }

    def run(self, name: str) -> str:
        """Run an example in a process of its own; gives what it printed."""
        example = RUN[name]
        if example.language == "python":
            assert PYTHON.exists(), f"{PYTHON} is missing: run make clients"
            command = [str(PYTHON), "-c", example.code]
        else:
            command = ["bash", "-euo", "pipefail", "-c", example.code]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        assert done.returncode == 0, f"{name}:\n{done.stdout}\n{done.stderr[-4000:]}"
        return done.stdout

    def heard(self, name: str) -> str:
        """What the recogniser hears in a sound file that an example wrote."""
        client = openai.OpenAI(base_url=f"{self.server.address}/v1", api_key="any")
        return client.audio.transcriptions.create(
            model="whisper-tiny.en", file=self.folder / name
        ).text

    def film(self, name: str) -> None:
        """A film with picture and sound that belong together."""
        report = measure_skew(self.folder / name)
        assert report.video_s > 1
        assert report.audio_s > 1
        assert report.skew_ms <= 40


@pytest.fixture(scope="module")
def desk(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """With the helpers' files, and the question by voice that most examples use."""
    desk = Desk(tmp_path_factory.mktemp("guides"), server)
    for example in EXAMPLES:
        if example.use == "file":
            (desk.folder / example.name).write_text(example.code)
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="any")
    client.audio.speech.create(
        model="kokoro-82m", voice="nova", input=ASKED, response_format="wav"
    ).write_to_file(desk.folder / "question.wav")
    return desk


def test_every_example_is_run() -> None:
    fences = GUIDE.read_text().count("\n```") // 2
    assert fences == len(EXAMPLES), "a block in docs/clients.md has no comment before it"
    assert {each.use for each in EXAMPLES} == {"run", "file", "shared"}
    browser = {name for name in RUN if RUN[name].language == "js"}
    assert RUN.keys() == CHECKS.keys() | browser
    assert browser == {"browser-turn", "browser-webrtc"}


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def same_words(desk: Desk, said: str, name: str) -> None:
    """The file says the text: a small recogniser makes mistakes, silence makes more."""
    heard = desk.heard(name)
    assert len(words(heard)) >= 3, heard
    assert jiwer.wer(" ".join(words(said)), " ".join(words(heard))) < 0.35, (said, heard)


def check_curl(desk: Desk, output: str) -> None:
    assert "dog" in desk.heard("question.wav").lower()
    transcript, chat = output.split("data: ", 1)
    assert "dog" in json.loads(transcript)["text"].lower()
    assert chat.rstrip().endswith("[DONE]")
    vectors = json.loads((desk.folder / "vectors.json").read_text())["data"]
    assert [len(vector["embedding"]) for vector in vectors] == [384, 384]
    desk.film("reply.mp4")


def check_openai_chat(desk: Desk, output: str) -> None:
    reply, tokens, emotion = output.strip().rsplit("\n", 2)
    assert len(words(reply)) >= 3
    assert re.fullmatch(r"[1-9]\d* tokens", tokens)
    assert re.fullmatch(r"[a-z]+", emotion)


def check_openai_audio(desk: Desk, output: str) -> None:
    same_words(desk, output, "reply.wav")


def check_openai_stages(desk: Desk, output: str) -> None:
    text, word, nearer = output.strip().split("\n")
    assert "train" in text
    assert word.startswith("TranscriptionWord(")
    assert nearer == "True"


def check_openai_videos(desk: Desk, output: str) -> None:
    assert output.strip() == "completed"
    desk.film("video.mp4")


def check_openai_realtime(desk: Desk, output: str) -> None:
    heard, reply, status = output.strip().split("\n", 1)[0], *output.strip().rsplit("\n", 2)[-2:]
    assert heard.startswith("heard:")
    assert "dog" in heard
    assert status == "completed"
    same_words(desk, reply, "reply.wav")


def check_langchain(desk: Desk, output: str) -> None:
    *reply, meeting, size = output.strip().split("\n")
    assert len(words(" ".join(reply))) >= 3
    assert re.fullmatch(r"day='.+' hour=\d+", meeting)
    assert size == "384"


def check_agent(desk: Desk, output: str) -> None:
    """A conversation as ``role: text``: the question was heard, the reply was said."""
    lines = re.split(r"^(user|assistant): ", output.strip(), flags=re.MULTILINE)
    said = dict(zip(lines[1::2], lines[2::2], strict=True))
    assert "dog" in said["user"]
    same_words(desk, said["assistant"], "reply.wav")


CHECKS: dict[str, Callable[[Desk, str], None]] = {
    "curl": check_curl,
    "openai-chat": check_openai_chat,
    "openai-audio": check_openai_audio,
    "openai-stages": check_openai_stages,
    "openai-videos": check_openai_videos,
    "openai-realtime": check_openai_realtime,
    "langchain": check_langchain,
    "pipecat": check_agent,
    "pipecat-realtime": check_agent,
    "livekit": check_agent,
    "livekit-realtime": check_agent,
}


@pytest.mark.timeout(_LIMIT_S + 60)
@pytest.mark.parametrize("name", CHECKS)
def test_example(desk: Desk, name: str) -> None:
    for old in ("reply.wav", "reply.mp4"):
        (desk.folder / old).unlink(missing_ok=True)
    CHECKS[name](desk, desk.run(name))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.timeout(_LIMIT_S + 60)
@pytest.mark.parametrize("name", [name for name in RUN if RUN[name].language == "js"])
async def test_example_in_a_browser(desk: Desk, name: str) -> None:
    printed: list[str] = []
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        ) as browser,
    ):
        page = await browser.new_page()
        page.on("console", lambda message: printed.append(message.text))
        await page.goto(desk.server.address)
        printed.clear()
        await page.evaluate(f"async () => {{ {RUN[name].code} }}")
    *reply, last = printed
    assert len(words(" ".join(reply))) >= 3, printed
    if name == "browser-webrtc":
        assert last == "512×512"
    else:
        assert float(last.removesuffix(" s")) > 1
