"""Loudness, limits, prosody and the graph's arithmetic, without the model."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from e3rg.emotions.types import Delivery, Expression
from e3rg.stages.speech.delivery import Prosody, prosody
from e3rg.stages.speech.kokoro_graph import (
    UnknownGraphError,
    _stft_as_convolution,
    expressive_graph,
)
from e3rg.stages.speech.sound import TARGET_DBFS, finish, spoken_level_db
from e3rg.stages.speech.timing import phoneme_times

RATE = 24_000


def tone(level: float, seconds: float = 1.0) -> np.ndarray:
    time = np.arange(int(RATE * seconds)) / RATE
    return (level * np.sin(2 * np.pi * 220 * time)).astype(np.float32)


@pytest.mark.parametrize("level", [0.001, 0.05, 1.0, 20.0])
def test_loudness_is_the_same_whatever_comes_in(level: float) -> None:
    out = finish(tone(level), RATE, gain_db=0, brightness_db=0)
    assert spoken_level_db(out, RATE) == pytest.approx(TARGET_DBFS, abs=0.3)
    assert out[0] == 0 and abs(out[-1]) < 1e-3


def test_peaks_are_bent_not_clipped() -> None:
    spiky = tone(0.01)
    spiky[::2000] = 1.0
    out = finish(spiky, RATE, gain_db=6, brightness_db=3)
    assert np.abs(out).max() < 0.99


def test_silence_stays_silence() -> None:
    assert not finish(np.zeros(1000, np.float32), RATE, gain_db=0, brightness_db=3).any()


def test_delivery_scales_with_intensity_and_neutral_changes_nothing() -> None:
    assert prosody(Delivery(Expression.NEUTRAL, 1.0)) == Prosody()
    for expression in Expression:
        assert prosody(Delivery(expression, 0.0)) == Prosody()
        assert prosody(Delivery(expression, 7.0)) == prosody(Delivery(expression, 1.0))
    half, full = (prosody(Delivery(Expression.SAD, x)) for x in (0.5, 1.0))
    assert full.rate < half.rate < 1 and full.pitch_range < half.pitch_range < 1
    assert prosody(Delivery(Expression.HAPPY, float("nan"))) == Prosody()


def test_phonemes_end_with_their_sound_and_pauses_are_gaps() -> None:
    # Two vowels with a silent comma between: 4 frames silence, 8 sound, 8 silence, 8 sound, 4.
    loud, quiet = tone(0.3, 0.2), np.zeros(int(0.2 * RATE), np.float32)
    lead = np.zeros(int(0.1 * RATE), np.float32)
    samples = np.concatenate([lead, loud, quiet, loud, lead])
    frames = np.array([6, 8, 8, 8, 2], np.int64)  # durations run 50 ms late, as the network's do
    first, second = phoneme_times("a,i", frames, samples, RATE, 600)
    assert (first.symbol, second.symbol) == ("a", "i")
    assert first.start == pytest.approx(0.1, abs=0.02) and first.end == pytest.approx(0.3, abs=0.02)
    assert second.start == pytest.approx(0.5, abs=0.02)
    assert second.end == pytest.approx(0.7, abs=0.02)


def test_the_convolution_equals_the_stft_operator() -> None:
    window = np.hanning(21)[:20].astype(np.float32)
    values = [
        numpy_helper.from_array(np.array(5), "step"),
        numpy_helper.from_array(window, "window"),
        numpy_helper.from_array(np.array(20), "length"),
    ]
    graph = helper.make_graph(
        [helper.make_node("STFT", ["x", "step", "window", "length"], ["y"], onesided=1)],
        "stft",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 400])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        values,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    signal = np.random.default_rng(0).standard_normal((1, 400)).astype(np.float32)

    def run(model: onnx.ModelProto) -> np.ndarray:
        options = ort.SessionOptions()
        options.log_severity_level = 3
        session = ort.InferenceSession(model.SerializeToString(), options)
        return np.asarray(session.run(None, {"x": signal})[0])

    before = run(model)
    _stft_as_convolution(model.graph)
    assert not any(node.op_type == "STFT" for node in model.graph.node)
    np.testing.assert_allclose(run(model), before, atol=1e-4)


def test_a_file_that_is_not_kokoro_is_refused(tmp_path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(UnknownGraphError, match=r"model\.onnx"):
        expressive_graph(path)
