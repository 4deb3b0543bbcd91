"""A tokenizer folder for load generators, rebuilt from a GGUF file's own metadata.

They want one in the form of the ``transformers`` library; the model file has all that goes into it
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, BinaryIO

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_SCALARS = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4


def read_metadata(path: Path) -> dict[str, Any]:
    """The key-value pairs at the head of a GGUF file.

    Raises:
        ValueError: the file is not GGUF of version 2 or 3.
    """
    with path.open("rb") as file:
        magic, version, _, count = struct.unpack("<4sIQQ", file.read(24))
        if magic != b"GGUF" or version not in {2, 3}:
            raise ValueError(f"{path} is not a GGUF file of version 2 or 3")
        return {_string(file): _value(file, _scalar(file, 4)) for _ in range(count)}


def write_tokenizer(model: Path, folder: Path) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` of a byte-level BPE model.

    Args:
        model: a GGUF file whose tokenizer is of the kind ``gpt2``.
        folder: where to write; it exists.

    Raises:
        ValueError: the model's tokenizer is of another kind.
    """
    metadata = read_metadata(model)
    kind = metadata["tokenizer.ggml.model"]
    if kind != "gpt2":
        raise ValueError(f"{model} has a tokenizer of the kind {kind!r}; only gpt2 can be rebuilt")
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in metadata["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    # llama.cpp's pre-tokenizer "smollm": each digit by itself, else GPT-2's pattern.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [
        AddedToken(token, special=True, normalized=False)
        for token, sort in zip(tokens, metadata["tokenizer.ggml.token_type"], strict=True)
        if sort in {_CONTROL, _USER_DEFINED}
    ]
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": tokens[metadata["tokenizer.ggml.eos_token_id"]],
        "chat_template": metadata["tokenizer.chat_template"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def _scalar(file: BinaryIO, kind: int) -> Any:
    layout = "<" + _SCALARS[kind]
    return struct.unpack(layout, file.read(struct.calcsize(layout)))[0]


def _string(file: BinaryIO) -> str:
    return file.read(_scalar(file, 10)).decode("utf-8")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        inner, count = _scalar(file, 4), _scalar(file, 10)
        return [_value(file, inner) for _ in range(count)]
    return _scalar(file, kind)
