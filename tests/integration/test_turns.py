"""Whole turns through the real graph on Ray Serve: what a client sends, gets, and sees go wrong."""

import io
import time
from itertools import pairwise
from pathlib import Path

import av
import httpx
import numpy as np
import pytest
from conftest import STAGES, Server
from sse import joined, of, stream, turn

from e3rg.config import load_profile
from e3rg.media.encode import encode_audio
from e3rg.media.probe import measure_skew
from e3rg.media.types import Pcm

HELLO = {"text": "I lost my dog yesterday.", "seed": 5, "max_tokens": 40}


def wait_idle(server: Server) -> None:
    due = time.monotonic() + 30
    while server.metric("e3rg_turns_active") > 0:
        assert time.monotonic() < due, "a turn never ended"
        time.sleep(0.1)


def tone(seconds: float, rate: int = 16_000) -> bytes:
    samples = (8000 * np.sin(np.arange(int(seconds * rate)) * 0.2)).astype("<i2")
    return encode_audio(Pcm(samples.tobytes(), rate), "wav")


@pytest.fixture(scope="module")
def events(server: Server) -> list[tuple[str, dict[str, object]]]:
    return turn(server.address, json=HELLO)


def test_a_reply_can_be_watched(events: list) -> None:
    names = list(dict.fromkeys(name for name, _ in events))
    assert names == [
        "turn.created",
        "emotion",
        "memory",
        "text.delta",
        "audio.chunk",
        "video.segment",
        "usage",
        "turn.completed",
    ]
    emotion = of(events, "emotion")[0]
    assert emotion["category"] == "sad"
    assert emotion["listener"]["expression"] == "concerned"
    assert abs(sum(emotion["categories"].values()) - 1) < 0.01
    assert len(of(events, "memory")[0]["exemplars"]) >= 2
    text = "".join(delta["text"] for delta in of(events, "text.delta"))
    assert text == of(events, "turn.completed")[0]["text"]
    assert text.strip()


def test_segments_are_one_file_in_sync(events: list) -> None:
    data = joined(events, "video.segment")
    report = measure_skew(data)
    assert report.skew_ms <= 40
    assert report.drift_ms == 0
    usage = of(events, "usage")[0]
    assert report.frames == usage["video_frames"]
    assert report.video_s == pytest.approx(usage["audio_seconds_out"], abs=0.001)
    with av.open(io.BytesIO(data)) as file:
        video = file.streams.video[0]
        assert (video.codec_context.name, video.width, video.height) == ("h264", 512, 512)
        assert file.streams.audio[0].codec_context.name == "aac"
        frames = [frame.to_ndarray(format="gray") for frame in file.decode(video=0)]
    assert frames[0].std() > 10  # a picture, not a blank
    moved = [np.abs(a.astype(int) - b).mean() for a, b in pairwise(frames)]
    assert np.mean(moved) > 0.05  # that is not frozen


def test_sound_is_heard_and_not_clipped(events: list) -> None:
    sound = np.frombuffer(joined(events, "audio.chunk"), "<i2").astype(float)
    assert 500 < np.sqrt((sound**2).mean()) < 12_000
    assert np.abs(sound).max() < 32_700


def test_the_turn_can_be_read_and_watched_later(server: Server, events: list) -> None:
    turn_id = of(events, "turn.created")[0]["id"]
    record = httpx.get(f"{server.address}/v1/turns/{turn_id}").json()
    assert record["status"] == "completed"
    assert record["input"] == {"text": HELLO["text"]}
    assert record["text"] == of(events, "turn.completed")[0]["text"]
    assert record["usage"] == of(events, "usage")[0]
    clip = httpx.get(server.address + record["video"])
    assert clip.headers["content-type"] == "video/mp4"
    assert measure_skew(clip.content).skew_ms <= 40


def test_one_mp4(server: Server) -> None:
    response = httpx.post(
        f"{server.address}/v1/turns",
        json={**HELLO, "stream": False, "format": "mp4", "identity": other(server)},
        timeout=120,
    )
    assert response.headers["content-type"] == "video/mp4"
    report = measure_skew(response.content)
    assert report.skew_ms <= 40
    assert report.frames > 20


def other(server: Server) -> str:
    listed = httpx.get(f"{server.address}/v1/identities").json()
    return next(i["id"] for i in listed["data"] if i["id"] != listed["default"])


def test_one_json_with_the_same_seed_says_the_same(server: Server, events: list) -> None:
    body = httpx.post(
        f"{server.address}/v1/turns",
        json={**HELLO, "stream": False, "reply_with": "text"},
        timeout=60,
    ).json()
    assert body["text"] == of(events, "turn.completed")[0]["text"]
    assert body["video"] is None


def test_speech_is_heard(server: Server, shared: Path) -> None:
    with (shared / "speech_jfk.flac").open("rb") as file:
        events = turn(
            server.address,
            files={"audio": ("any name.bin", file)},
            data={"reply_with": "text", "max_tokens": "8"},
        )
    heard = of(events, "transcript")[0]["text"].lower()
    assert "ask what you can do for your country" in heard
    assert "voice" in of(events, "emotion")[0]["modalities"]
    assert of(events, "usage")[0]["audio_seconds_in"] == pytest.approx(11, abs=0.1)


def test_a_face_is_seen(server: Server, shared: Path, tmp_path: Path) -> None:
    video = film(shared / "portrait_astronaut.png", tmp_path / "me.mp4")
    with video.open("rb") as file:
        events = turn(
            server.address,
            files={"video": file},
            data={"text": "Look at me!", "reply_with": "text", "max_tokens": "8"},
        )
    face = of(events, "emotion")[0]["modalities"]["face"]["categories"]
    assert max(face, key=face.get) == "happy"


def film(portrait: Path, output: Path, seconds: int = 1) -> Path:
    with av.open(str(portrait)) as source:
        picture = next(source.decode(video=0)).to_ndarray(format="rgb24")
    with av.open(str(output), "w") as file:
        stream_ = file.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream_.height, stream_.width = picture.shape[:2]
        stream_.pix_fmt = "yuv420p"
        for _ in range(25 * seconds):
            file.mux(stream_.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream_.encode())
    return output


def test_a_portrait_of_ones_own(server: Server, shared: Path) -> None:
    with (shared / "portrait_astronaut.png").open("rb") as file:
        events = turn(
            server.address, files={"portrait": file}, data={k: str(v) for k, v in HELLO.items()}
        )
    with av.open(io.BytesIO(joined(events, "video.segment"))) as clip:
        frame = next(clip.decode(video=0)).to_ndarray(format="rgb24")
    assert frame.std() > 30
    assert of(events, "turn.completed")


def test_a_conversation_goes_on(server: Server) -> None:
    first = turn(server.address, json={**HELLO, "reply_with": "text", "identity": other(server)})
    conversation = of(first, "turn.created")[0]["conversation"]
    second = turn(
        server.address,
        json={"text": "He was called Rex.", "conversation": conversation, "reply_with": "text"},
    )
    created = of(second, "turn.created")[0]
    assert created["conversation"] == conversation
    assert created["identity"] == other(server)  # the listener stays
    assert of(second, "usage")[0]["prompt_tokens"] > of(first, "usage")[0]["prompt_tokens"]


def test_what_a_user_told_is_remembered_for_this_user_alone(server: Server) -> None:
    told = "My sister Alba moved to Lisbon and I miss her every day."
    turn(server.address, json={"text": told, "user": "ann", "reply_with": "text"})
    ask = {"text": "I miss my sister so much.", "reply_with": "text"}
    mine = of(turn(server.address, json={**ask, "user": "ann"}), "memory")[0]
    assert told in [episode["text"] for episode in mine["episodes"]]
    for user in ({"user": "bob"}, {"user": 'x" or user != "'}, {}):
        theirs = of(turn(server.address, json={**ask, **user}), "memory")[0]
        assert theirs["episodes"] == []


BAD_JSON = [
    ({}, "input_missing", "text"),
    ({"text": ""}, "text_empty", "text"),
    ({"text": " \n\t "}, "text_empty", "text"),
    ({"text": "a" * 50_000}, "text_too_long", "text"),
    ({"text": "?!..."}, "text_no_words", "text"),
    ({"text": "我昨天失去了我的狗。"}, "unsupported_language", "text"),
    ({"text": "فقدت كلبي أمس"}, "unsupported_language", "text"),
    ({"text": 5}, "invalid_type", "text"),
    ({"text": ["a"]}, "invalid_type", "text"),
    ({"text": "Hi", "seed": "one"}, "invalid_type", "seed"),
    ({"text": "Hi", "reply_with": "smell"}, "invalid_type", "reply_with"),
    ({"text": "Hi", "max_tokens": -1}, "invalid_type", "max_tokens"),
    ({"text": "Hi", "timeout": 0}, "invalid_type", "timeout"),
    ({"text": "Hi", "conversation": "../../etc"}, "invalid_type", "conversation"),
    ({"text": "Hi", "identity": "nobody"}, "unknown_identity", "identity"),
    ({"text": "Hi", "colour": "red"}, "unknown_field", "colour"),
]


@pytest.mark.parametrize(("body", "code", "param"), BAD_JSON)
def test_bad_json_names_the_field(server: Server, body: dict, code: str, param: str) -> None:
    check(httpx.post(f"{server.address}/v1/turns", json=body), code, param)


def check(response: httpx.Response, code: str, param: str | None) -> None:
    assert 400 <= response.status_code < 500, response.text
    error = response.json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"]
    assert "Traceback" not in response.text
    assert response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("content", "kind", "code"),
    [
        (b"{", "application/json", "invalid_json"),
        (b"[1]", "application/json", "invalid_json"),
        (b"\xff\xfe", "application/json", "invalid_json"),
        (b"[" * 200_000, "application/json", "invalid_json"),
        (b"x", "text/plain", "unsupported_media_type"),
        (b"x", "multipart/form-data", "invalid_multipart"),
        (b'{"text": "' + b"a" * 2_000_000 + b'"}', "application/json", "body_too_large"),
    ],
)
def test_bad_bodies(server: Server, content: bytes, kind: str, code: str) -> None:
    response = httpx.post(
        f"{server.address}/v1/turns", content=content, headers={"content-type": kind}
    )
    check(response, code, None)


def long_silence() -> bytes:
    out = io.BytesIO()
    with av.open(out, "w", format="flac") as file:
        track = file.add_stream("flac", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 4096), "<i2"), format="s16", layout="mono")
        frame.sample_rate = 8000
        for number in range(2 * 3600 * 8000 // 4096):
            frame.pts = number * 4096
            file.mux(track.encode(frame))
        file.mux(track.encode())
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "field", "code"),
    [
        ("empty.wav", b"", "audio", "audio_empty"),
        ("text.wav", b"these are words, not sound" * 50, "audio", "audio_unreadable"),
        ("broken.wav", tone(1)[:40], "audio", "audio_unreadable"),
        ("silent.wav", encode_audio(Pcm(bytes(64_000), 16_000), "wav"), "audio", "no_speech"),
        ("long.flac", long_silence, "audio", "audio_too_long"),
        ("broken.mp4", b"\x00\x00\x00\x18ftypmp42" + bytes(200), "video", "video_unreadable"),
    ],
)
def test_bad_media(server: Server, name: str, content: object, field: str, code: str) -> None:
    data = content() if callable(content) else content
    response = httpx.post(
        f"{server.address}/v1/turns",
        files={field: (name, data)},
        data={"stream": "false", "reply_with": "text"},
        timeout=60,
    )
    check(response, code, field)


def test_a_video_without_sound_needs_text(server: Server, shared: Path, tmp_path: Path) -> None:
    video = film(shared / "portrait_astronaut.png", tmp_path / "mute.mp4")
    response = httpx.post(
        f"{server.address}/v1/turns", files={"video": video.read_bytes()}, timeout=60
    )
    check(response, "video_no_sound", "video")


def test_bad_portraits(server: Server) -> None:
    grey = io.BytesIO()
    with av.open(grey, "w", format="image2pipe") as file:
        track = file.add_stream("png")
        track.width = track.height = 300
        track.pix_fmt = "rgb24"
        blank = np.full((300, 300, 3), 127, np.uint8)
        file.mux(track.encode(av.VideoFrame.from_ndarray(blank, format="rgb24")))
        file.mux(track.encode())
    huge = (
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (30_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    )
    for data, code in (
        (grey.getvalue(), "portrait_no_face"),
        (huge, "portrait_too_large"),
        (b"", "portrait_unreadable"),
        (b"no picture", "portrait_unreadable"),
    ):
        response = httpx.post(
            f"{server.address}/v1/turns", files={"portrait": data}, data={"text": "Hi"}, timeout=60
        )
        check(response, code, "portrait")


@pytest.mark.parametrize(
    "text",
    [
        "😭😭💔",
        "On 3/4/2024 I paid $1,200.50 for a 10x10 room, see https://a.example/b?c=d",
        "I\x00 am\x07 sad\x1b[0m",
        "HELP!!! " * 50,
        "<script>alert(1)</script> {{7*7}} %s ${HOME}",
    ],
)
def test_odd_text_gets_a_whole_reply(server: Server, text: str) -> None:
    events = turn(server.address, json={"text": text, "max_tokens": 16, "reply_with": "audio"})
    assert of(events, "turn.completed")[0]["text"].strip()


def test_leaving_after_the_first_event_stops_everything(server: Server) -> None:
    wait_idle(server)
    cancelled = server.metric("e3rg_cancel_to_idle_seconds_count")
    events = stream(server.address, json={"text": "Tell me a long story.", "max_tokens": 120})
    next(events)
    events.close()
    wait_idle(server)
    assert server.metric("e3rg_cancel_to_idle_seconds_count") == cancelled + 1


def test_leaving_in_the_middle_of_the_video_stops_everything(server: Server) -> None:
    cancelled = server.metric("e3rg_cancel_to_idle_seconds_count")
    events = stream(server.address, json={"text": "Tell me a long story.", "max_tokens": 120})
    turn_id = next(events)[1]["id"]
    for name, _ in events:
        if name == "video.segment":
            break
    events.close()
    wait_idle(server)
    assert server.metric("e3rg_cancel_to_idle_seconds_count") == cancelled + 1
    record = httpx.get(f"{server.address}/v1/turns/{turn_id}").json()
    assert record["status"] == "cancelled"
    assert record["usage"]["video_frames"] > 0  # what was made is counted


def test_more_turns_than_there_is_room_for_are_refused_with_503(server: Server) -> None:
    wait_idle(server)
    running = []
    try:
        for _ in range(int(load_profile("local").admission.capacity["dialogue"])):
            events = stream(
                server.address, json={"text": "Tell me a long story.", "max_tokens": 120}
            )
            next(events)
            running.append(events)
        response = httpx.post(f"{server.address}/v1/turns", json=HELLO, timeout=60)
    finally:
        for events in running:
            events.close()
    assert (response.status_code, response.json()["error"]["code"]) == (503, "overloaded")
    assert int(response.headers["retry-after"]) > 0
    wait_idle(server)
    assert of(turn(server.address, json={**HELLO, "reply_with": "text"}), "turn.completed")


def test_a_short_deadline_is_kept(server: Server) -> None:
    events = turn(server.address, json={"text": "Tell me a story.", "timeout": 0.05})
    assert events[-1][0] == "error"
    assert events[-1][1]["error"]["code"] == "deadline_exceeded"
    wait_idle(server)


def test_unknown_paths_and_methods_have_the_same_shape(server: Server) -> None:
    for response, code in (
        (httpx.get(f"{server.address}/v1/nothing"), "not_found"),
        (httpx.put(f"{server.address}/v1/turns"), "method_not_allowed"),
        (httpx.get(f"{server.address}/v1/turns/turn_x"), "unknown_turn"),
        (httpx.get(f"{server.address}/v1/turns/turn_x/video"), "unknown_turn"),
        (httpx.get(f"{server.address}/v1/identities/none"), "unknown_identity"),
    ):
        assert response.json()["error"]["code"] == code
        assert response.headers["x-request-id"]


def test_a_request_id_comes_back(server: Server) -> None:
    response = httpx.get(f"{server.address}/healthz", headers={"x-request-id": "mine-1"})
    assert response.headers["x-request-id"] == "mine-1"


def test_it_is_ready_after_all_that(server: Server) -> None:
    report = httpx.get(f"{server.address}/readyz", timeout=60).json()
    assert report["status"] == "ready"
    assert set(report["stages"]) == {*STAGES, "records"}
