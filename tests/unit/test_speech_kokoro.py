"""The Kokoro engine with its real weights: what it says, when, how, and how it stops."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import jiwer
import numpy as np
import psutil
import pytest
import soxr
from faster_whisper import WhisperModel

from e3rg.config import ConfigError, model_dir
from e3rg.emotions.types import Delivery, Expression
from e3rg.engines import EngineContext
from e3rg.errors import E3RGError
from e3rg.identities.types import PortraitRef
from e3rg.models.store import ModelStore
from e3rg.stages.speech.engine import SpeechRequest, SpeechSegment
from e3rg.stages.speech.kokoro import Cancelled, KokoroSpeech
from e3rg.stages.speech.normalize import normalize
from e3rg.stages.speech.sound import levels_db, spoken_level_db

NEUTRAL = Delivery(Expression.NEUTRAL, 0.0)
RATE = 24_000
VOWELS = frozenset("aeiouæɑɒɔəɛɜɪʊʌ")


class NoPortraits:
    def portrait(self, ref: PortraitRef) -> bytes:
        raise NotImplementedError(ref)


def context() -> EngineContext:
    return EngineContext(ModelStore(model_dir()), Path("unused"), NoPortraits())


@pytest.fixture(scope="module")
def engine() -> Iterator[KokoroSpeech]:
    # Pieces of 80 phonemes, so that a sentence of ordinary length is cut and joined as well.
    loaded = KokoroSpeech.load(context(), max_tokens=80, max_waiting=3, max_chars=2000)
    yield loaded
    loaded.close()


def request(text: str, voice: str = "af_heart", delivery: Delivery = NEUTRAL) -> SpeechRequest:
    return SpeechRequest(text, voice, delivery)


def samples(segment: SpeechSegment) -> np.ndarray:
    return np.frombuffer(segment.audio.data, "<i2").astype(np.float32) / 32768


def check(segment: SpeechSegment) -> None:
    """Finite, unclipped, not silent, faded; phonemes in order and inside."""
    sound = samples(segment)
    assert segment.audio.sample_rate == RATE and len(sound) > 0.15 * RATE
    assert np.abs(sound).max() < 0.99 and spoken_level_db(sound, RATE) > -30
    assert abs(sound[0]) < 0.01 and abs(sound[-1]) < 0.01
    assert segment.phonemes
    end = 0.0
    for phoneme in segment.phonemes:
        assert phoneme.symbol and not set(phoneme.symbol) & set("ˈˌː ,.!?")
        assert end - 1e-6 <= phoneme.start < phoneme.end
        end = phoneme.end
    assert end <= segment.audio.seconds + 1e-6


SENTENCES = (
    ("I am so sorry that you lost your dog yesterday.", "am_michael"),
    ("That costs $25.50, and it comes on May 5th.", "af_bella"),
    ("Have you told your sister how you feel about the job, or is it still too early?", "bf_emma"),
)


@pytest.fixture(scope="module")
def spoken(engine: KokoroSpeech) -> list[SpeechSegment]:
    return [asyncio.run(engine.synthesize(request(*sentence))) for sentence in SENTENCES]


@pytest.fixture(scope="module")
def whisper() -> WhisperModel:
    folder = ModelStore(model_dir()).path("whisper-base/model.bin").parent
    return WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=2)


def hear(whisper: WhisperModel, segment: SpeechSegment) -> str:
    sound = np.concatenate([np.zeros(6000), samples(segment), np.zeros(6000)])
    found, _ = whisper.transcribe(soxr.resample(sound, RATE, 16_000).astype(np.float32), "en")
    return plain("".join(part.text for part in found))


async def test_whisper_hears_what_was_written(
    spoken: list[SpeechSegment], whisper: WhisperModel
) -> None:
    said, heard = [], []
    for (text, _), segment in zip(SENTENCES, spoken, strict=True):
        check(segment)
        said.append(plain(text))
        heard.append(hear(whisper, segment))
    assert jiwer.wer(said, heard) < 0.15, list(zip(said, heard, strict=True))


async def test_every_speed_is_understood(engine: KokoroSpeech, whisper: WhisperModel) -> None:
    text = "I walked along the river this morning, and the water was high after all that rain."
    lengths = []
    for speed in (0.25, 1.0, 2.5):
        segment = await engine.synthesize(SpeechRequest(text, "af_heart", NEUTRAL, speed))
        check(segment)
        lengths.append(segment.audio.seconds)
        heard = hear(whisper, segment)
        assert jiwer.wer(plain(text), heard) <= 0.15, (speed, heard)
    assert lengths[1] / lengths[0] == pytest.approx(0.25, abs=0.04)
    assert lengths[2] / lengths[1] == pytest.approx(0.4, abs=0.08)


def plain(text: str) -> str:
    """Words only, figures spelled, so that "$25" and "twenty-five dollars" are the same."""
    words = normalize(text).replace("-", " ").lower()
    return "".join(char for char in words if char.isalpha() or char in " '")


async def test_phonemes_are_where_the_sound_is(spoken: list[SpeechSegment]) -> None:
    """Vowels are loud, the space outside phonemes is quiet, and no shift would fit better."""
    step = 120
    lags = []
    for segment in spoken:
        levels = np.clip((levels_db(samples(segment), step) + 60) / 45, 0, 1)
        expected = np.zeros(len(levels))
        for phoneme in segment.phonemes:
            first, last = (int(t * RATE / step) for t in (phoneme.start, phoneme.end))
            expected[first:last] = 1.0 if phoneme.symbol in VOWELS else 0.4
        outside = levels[expected == 0]
        assert np.median(outside) < 0.35
        fits = [np.corrcoef(expected, np.roll(levels, shift))[0, 1] for shift in range(-20, 21)]
        lags.append((int(np.argmax(fits)) - 20) * 5)
    assert abs(np.mean(lags)) <= 25, lags


@pytest.mark.parametrize("text", ["", " \n", "...?!", "😀🎉", "你好，世界", "مرحبا", "\x00\x1b"])
async def test_nothing_to_say_is_no_sound(engine: KokoroSpeech, text: str) -> None:
    segment = await engine.synthesize(request(text))
    assert segment.audio.samples == 0 and segment.phonemes == ()


@pytest.mark.parametrize("text", ["Oh.", "WOW!!! 😀", "10x10", "Qzxv\x07 你好"])
async def test_awkward_text_is_spoken(engine: KokoroSpeech, text: str) -> None:
    check(await engine.synthesize(request(text, "am_puck")))


def pitch(sound: np.ndarray) -> np.ndarray:
    """F0 in Hz of the voiced 40 ms frames, by normalised autocorrelation."""
    size, found = int(0.04 * RATE), []
    low, high = RATE // 400, RATE // 100
    for start in range(0, len(sound) - size, size // 2):
        frame = sound[start : start + size] - sound[start : start + size].mean()
        if np.sqrt((frame**2).mean()) < 0.02:
            continue
        power = np.fft.rfft(frame, 2 * size)
        auto = np.fft.irfft(np.abs(power) ** 2)[:size] / (frame**2).sum()
        lag = low + int(np.argmax(auto[low:high]))
        if auto[lag] > 0.5:
            found.append(RATE / lag)
    return np.array(found)


async def test_emotion_is_heard_in_rate_pitch_range_and_energy(engine: KokoroSpeech) -> None:
    text = "We are going to see them again."
    measured = {}
    for expression in (Expression.NEUTRAL, Expression.HAPPY, Expression.SAD):
        segment = await engine.synthesize(request(text, delivery=Delivery(expression, 1.0)))
        check(segment)
        sound = samples(segment)
        semitones = 12 * np.log2(pitch(sound))
        measured[expression] = (
            segment.phonemes[-1].end - segment.phonemes[0].start,
            float(np.median(semitones)),
            float(np.percentile(semitones, 85) - np.percentile(semitones, 15)),
            spoken_level_db(sound, RATE),
        )
    print(measured)
    neutral, happy, sad = measured.values()
    assert happy[0] < 0.97 * neutral[0] and sad[0] > 1.06 * neutral[0]  # seconds
    assert happy[1] > neutral[1] + 0.8 and sad[1] < neutral[1] - 0.5  # semitones
    assert sad[2] < neutral[2] < happy[2]  # semitones between the 15th and 85th percentile
    assert happy[3] > neutral[3] + 0.3 and sad[3] < neutral[3] - 2  # dB
    assert neutral[3] == pytest.approx(-20, abs=1)


async def test_cancelling_stops_the_model_and_the_next_call_is_right(
    engine: KokoroSpeech, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await engine.synthesize(request("Yes."))
    outcomes: list[str] = []
    running = asyncio.Event()
    loop = asyncio.get_running_loop()
    run = engine._run

    def watched(*args):
        loop.call_soon_threadsafe(running.set)
        try:
            result = run(*args)
        except Cancelled:
            outcomes.append("cancelled")
            raise
        outcomes.append("finished")
        return result

    monkeypatch.setattr(engine, "_run", watched)
    task = asyncio.create_task(engine.synthesize(request("And then we all went home again, " * 40)))
    await running.wait()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    after = await engine.synthesize(request("Yes."))
    assert outcomes == ["cancelled", "finished"]
    assert after == before


async def test_the_queue_is_bounded(engine: KokoroSpeech) -> None:
    tasks = [asyncio.create_task(engine.synthesize(request("Oh."))) for _ in range(4)]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    (refused,) = [result for result in results if isinstance(result, BaseException)]
    assert isinstance(refused, E3RGError)
    assert (refused.code, refused.status, refused.retry_after) == ("speech_busy", 503, 1)


@pytest.mark.parametrize(
    ("bad", "code", "param"),
    [
        (SpeechRequest("Hi.", "nobody", NEUTRAL), "unknown_voice", "voice"),
        (SpeechRequest("Hi.", "af_heart", NEUTRAL, speed=9), "invalid_speed", "speed"),
        (SpeechRequest("Hi.", "af_heart", NEUTRAL, speed=float("nan")), "invalid_speed", "speed"),
        (SpeechRequest("a" * 2001, "af_heart", NEUTRAL), "text_too_long", "text"),
    ],
)
async def test_wrong_requests_name_the_field(
    engine: KokoroSpeech, bad: SpeechRequest, code: str, param: str
) -> None:
    with pytest.raises(E3RGError) as caught:
        await engine.synthesize(bad)
    assert (caught.value.code, caught.value.param) == (code, param)


async def test_memory_stays_flat(engine: KokoroSpeech) -> None:
    process = psutil.Process()
    for text in ("Oh.", "No.", "Hi.", "Yes."):
        await engine.synthesize(request(text))
    before = process.memory_info().rss
    for number in range(12):
        await engine.synthesize(request(("Oh.", "No.", "Hi.", "Yes.")[number % 4]))
    assert process.memory_info().rss < before * 1.02


async def test_voices_are_many_and_of_both_genders(engine: KokoroSpeech) -> None:
    kinds = {(voice.gender, voice.accent) for voice in await engine.voices()}
    assert len(await engine.voices()) >= 10 and len(kinds) == 4


def test_a_wrong_option_is_refused_before_loading() -> None:
    with pytest.raises(ConfigError, match="max_tokens"):
        KokoroSpeech.load(context(), max_tokens=9999)


async def test_closing_ends_what_runs_and_what_waits(engine: KokoroSpeech) -> None:
    """The last test: the fixture closes the engine a second time."""
    tasks = [asyncio.create_task(engine.synthesize(request("One, two. " * 40))) for _ in range(2)]
    await asyncio.sleep(0.2)
    await asyncio.to_thread(engine.close)
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(result, E3RGError) and result.code == "speech_closed"
    with pytest.raises(E3RGError, match="shutting down"):
        await engine.synthesize(request("Hello."))
