"""Kokoro's ONNX graph with the handles that emotional, lip-synced speech needs.

The published export (``tokens, style, speed -> audio``) hides what the network itself predicts on
the way: how long each phoneme lasts, and its pitch contour. Both are ordinary tensors of the graph,
so they are opened here once, while loading, instead of estimated from the sound afterwards:

- output ``durations`` (int64, 1 × tokens): frames of FRAME_SAMPLES samples per token; their sum is
  the audio's length exactly;
- input ``max_frames`` (float32, tokens): upper bound of each token's duration, for pauses;
- inputs ``pitch`` and ``pitch_range`` (float32, 1): scale the predicted F0 contour, and its
  deviation from the sentence's mean, before the vocoder. Formants stay where they are, and there
  is none of the phase noise of a time-stretched waveform.

Model: Kokoro-82M (https://huggingface.co/hexgrad/Kokoro-82M), a StyleTTS 2 (arXiv 2306.07691)
decoder with an ISTFTNet vocoder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FRAME_SAMPLES = 600
"""Samples in one duration frame at 24 kHz: 25 ms."""

_DURATIONS = "/encoder/Clip_output_0"
_F0 = "/encoder/F0_proj/Conv_output_0"
_VOICED_HZ = 10.0  # the vocoder's own threshold between a voiced and an unvoiced frame


class UnknownGraphError(ValueError):
    """The file is an ONNX model but not the Kokoro export that this module knows."""


def expressive_graph(path: Path) -> bytes:
    """Read Kokoro's ONNX file and return the serialised graph with the handles above.

    Raises:
        UnknownGraphError: when the expected tensors are not in the graph.
    """
    try:
        model = onnx.load(str(path))
    except Exception as error:  # protobuf raises its own, private, error type
        raise UnknownGraphError(f"{path.name} is not a readable ONNX file") from error
    graph = model.graph
    made = {name for node in graph.node for name in node.output}
    if not {_DURATIONS, _F0} <= made:
        raise UnknownGraphError(f"{path.name} has no duration or pitch predictor by its known name")
    _open_durations(graph)
    _open_pitch(graph)
    _float_convolutions(graph, lambda name: "/generator/" in name)
    _stft_as_convolution(graph)
    _prune(graph)
    serialised: bytes = model.SerializeToString()
    return serialised


def _insert_after(graph: onnx.GraphProto, tensor: str, nodes: list[onnx.NodeProto]) -> None:
    """Put nodes behind the producer of a tensor, and let its other readers read the last node."""
    at = next(i for i, node in enumerate(graph.node) if tensor in node.output)
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name == tensor:
                node.input[i] = nodes[-1].output[0]
    for offset, node in enumerate(nodes, start=1):
        graph.node.insert(at + offset, node)


def _open_durations(graph: onnx.GraphProto) -> None:
    _insert_after(
        graph,
        _DURATIONS,
        [helper.make_node("Min", [_DURATIONS, "max_frames"], ["capped_frames"])],
    )
    graph.input.append(helper.make_tensor_value_info("max_frames", TensorProto.FLOAT, ["tokens"]))
    graph.node.append(
        helper.make_node("Cast", ["capped_frames"], ["durations"], to=TensorProto.INT64)
    )
    graph.output.append(
        helper.make_tensor_value_info("durations", TensorProto.INT64, [1, "tokens"])
    )


def _open_pitch(graph: onnx.GraphProto) -> None:
    for name, value in (("voiced_hz", _VOICED_HZ), ("at_least_one", 1.0)):
        graph.initializer.append(numpy_helper.from_array(np.array([value], np.float32), name))
    for name in ("pitch", "pitch_range"):
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]))
    node = helper.make_node
    _insert_after(
        graph,
        _F0,
        [
            node("Greater", [_F0, "voiced_hz"], ["f0_is_voiced"]),
            node("Cast", ["f0_is_voiced"], ["f0_voiced"], to=TensorProto.FLOAT),
            node("Mul", [_F0, "f0_voiced"], ["f0_of_voiced"]),
            node("ReduceSum", ["f0_of_voiced"], ["f0_sum"], keepdims=0),
            node("ReduceSum", ["f0_voiced"], ["f0_frames"], keepdims=0),
            node("Max", ["f0_frames", "at_least_one"], ["f0_count"]),
            node("Div", ["f0_sum", "f0_count"], ["f0_mean"]),
            node("Sub", [_F0, "f0_mean"], ["f0_deviation"]),
            node("Mul", ["f0_deviation", "pitch_range"], ["f0_ranged"]),
            node("Add", ["f0_ranged", "f0_mean"], ["f0_recentred"]),
            node("Mul", ["f0_recentred", "pitch"], ["f0_scaled"]),
            node("Where", ["f0_is_voiced", "f0_scaled", _F0], ["shaped_f0"]),
        ],
    )


def _float_convolutions(graph: onnx.GraphProto, wanted: Callable[[str], bool]) -> None:
    """Turn dynamically quantised convolutions back into float ones, weights dequantised.

    The vocoder's convolutions are few in weights (14 M) and most of the work. ONNX Runtime's
    ConvInteger costs more there than a float convolution, and rounds every activation to 8 bits.
    """
    weights = {tensor.name: tensor for tensor in graph.initializer}
    maker = {name: node for node in graph.node for name in node.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)

    replaced: dict[str, onnx.NodeProto] = {}
    for node in graph.node:
        if node.op_type != "ConvInteger" or not wanted(node.name):
            continue
        quantised, weight, _, zero = node.input
        quantise = maker[quantised]
        tail = readers[node.output[0]][0]
        bias: list[str] = []
        if tail.op_type == "Add":
            # bias -> Div(scale) -> Floor -> Cast -> Reshape -> Add
            step = maker[next(name for name in tail.input if name != node.output[0])]
            while step.op_type != "Div":
                step = maker[step.input[0]]
            bias = [step.input[0]]
            tail = readers[tail.output[0]][0]
        scale = readers[tail.output[0]][0]  # Cast -> Mul(input scale × weight scale)
        product = maker[next(name for name in scale.input if name != tail.output[0])]
        weight_scale = next(name for name in product.input if name != quantise.output[1])
        raw = numpy_helper.to_array(weights[weight]).astype(np.float32)
        per_channel = (-1,) + (1,) * (raw.ndim - 1)
        offset, factor = (
            numpy_helper.to_array(weights[name]).astype(np.float32).reshape(per_channel)
            for name in (zero, weight_scale)
        )
        name = f"{node.name}/weight"
        graph.initializer.append(numpy_helper.from_array((raw - offset) * factor, name))
        convolution = helper.make_node(
            "Conv", [quantise.input[0], name, *bias], [scale.output[0]], name=f"{node.name}/float"
        )
        convolution.attribute.extend(node.attribute)
        replaced[scale.output[0]] = convolution
    nodes = [replaced.get(node.output[0], node) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _stft_as_convolution(graph: onnx.GraphProto) -> None:
    """Replace the STFT operator, slow in ONNX Runtime, by the convolution that it is."""
    values = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type != "STFT":
            nodes.append(node)
            continue
        signal, step, window, length = (name for name in node.input)
        hop, size = (int(numpy_helper.to_array(values[name])) for name in (step, length))
        bins = size // 2 + 1
        angle = 2 * np.pi * np.outer(np.arange(bins), np.arange(size)) / size
        taper = numpy_helper.to_array(values[window])
        kernels = np.stack([np.cos(angle) * taper, -np.sin(angle) * taper], axis=1)
        for name, value in (
            ("stft_kernels", kernels.reshape(2 * bins, 1, size).astype(np.float32)),
            ("stft_signal_shape", np.array([1, 1, -1], np.int64)),
            ("stft_shape", np.array([1, -1, bins, 2], np.int64)),
        ):
            graph.initializer.append(numpy_helper.from_array(value, name))
        make = helper.make_node
        nodes += [
            make("Reshape", [signal, "stft_signal_shape"], ["stft_signal"]),
            make("Conv", ["stft_signal", "stft_kernels"], ["stft_parts"], strides=[hop]),
            make("Transpose", ["stft_parts"], ["stft_frames"], perm=[0, 2, 1]),
            make("Reshape", ["stft_frames", "stft_shape"], list(node.output)),
        ]
    del graph.node[:]
    graph.node.extend(nodes)


def _prune(graph: onnx.GraphProto) -> None:
    """Drop nodes and weights that no output needs (nodes are in topological order)."""
    needed = {output.name for output in graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
    kept.reverse()
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:]
    graph.node.extend(kept)
    del graph.initializer[:]
    graph.initializer.extend(weights)
