"""Letters to sounds for words that no lexicon has: g2p-en's small recurrent network.

A GRU encoder and decoder over letters (Park and Kim 2019, https://github.com/Kyubyong/g2p,
Apache-2.0), trained on CMUdict; 3 MB of weights, about a millisecond a word in numpy. Its ARPAbet
is mapped to Kokoro's alphabet.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from e3rg.stages.speech.lexicon import PRIMARY, SECONDARY, VOWELS

_Array = NDArray[np.float32]

_START, _END = 2, 3  # among the sounds
_LETTERS = {letter: i for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz", start=3)}
_LAST_LETTER = 2  # "</s>" among the letters
# The network's output alphabet, in its own order.
_ARPABET = [
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    "AA0",
    "AA1",
    "AA2",
    "AE0",
    "AE1",
    "AE2",
    "AH0",
    "AH1",
    "AH2",
    "AO0",
    "AO1",
    "AO2",
    "AW0",
    "AW1",
    "AW2",
    "AY0",
    "AY1",
    "AY2",
    "B",
    "CH",
    "D",
    "DH",
    "EH0",
    "EH1",
    "EH2",
    "ER0",
    "ER1",
    "ER2",
    "EY0",
    "EY1",
    "EY2",
    "F",
    "G",
    "HH",
    "IH0",
    "IH1",
    "IH2",
    "IY0",
    "IY1",
    "IY2",
    "JH",
    "K",
    "L",
    "M",
    "N",
    "NG",
    "OW0",
    "OW1",
    "OW2",
    "OY0",
    "OY1",
    "OY2",
    "P",
    "R",
    "S",
    "SH",
    "T",
    "TH",
    "UH0",
    "UH1",
    "UH2",
    "UW",
    "UW0",
    "UW1",
    "UW2",
    "V",
    "W",
    "Y",
    "Z",
    "ZH",
]
_KOKORO = {
    "AA": "ɑ", "AE": "æ", "AH": "ʌ", "AO": "ɔ", "AW": "W", "AY": "I", "B": "b", "CH": "ʧ",
    "D": "d", "DH": "ð", "EH": "ɛ", "ER": "ɜɹ", "EY": "A", "F": "f", "G": "ɡ", "HH": "h",
    "IH": "ɪ", "IY": "i", "JH": "ʤ", "K": "k", "L": "l", "M": "m", "N": "n", "NG": "ŋ",
    "OW": "O", "OY": "Y", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t", "TH": "θ",
    "UH": "ʊ", "UW": "u", "V": "v", "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ",
}  # fmt: skip
_MAX_LETTERS = 14
_MAX_PHONEMES = 20


class LetterNetwork:
    """Guesses a pronunciation from spelling.

    Args:
        path: ``checkpoint20.npz`` of g2p-en 2.1.0.
    """

    def __init__(self, path: Path) -> None:
        with np.load(path) as weights:
            self._weights: dict[str, _Array] = {
                name: weights[name].astype(np.float32) for name in weights.files
            }

    def pronounce(self, word: str, *, british: bool) -> str:
        """Phonemes of a word of letters; a long one is read in pieces so that none is lost."""
        word = re.sub("[^a-z]", "", word.lower())
        pieces = [word[i : i + _MAX_LETTERS] for i in range(0, len(word), _MAX_LETTERS)]
        american = "".join(_from_arpabet(self._predict(piece)) for piece in pieces)
        return _to_british(american) if british else american

    def _predict(self, word: str) -> list[str]:
        w = self._weights
        hidden: _Array = np.zeros(w["enc_w_hh"].shape[-1], np.float32)
        for index in [*(_LETTERS[letter] for letter in word), _LAST_LETTER]:
            hidden = self._step("enc", w["enc_emb"][index], hidden)
        symbols: list[str] = []
        previous = _START
        while len(symbols) < _MAX_PHONEMES:
            hidden = self._step("dec", w["dec_emb"][previous], hidden)
            previous = int(np.argmax(w["fc_w"] @ hidden + w["fc_b"]))
            if previous == _END:
                break
            symbols.append(_ARPABET[previous])
        return symbols

    def _step(self, side: str, x: _Array, hidden: _Array) -> _Array:
        """One GRU step (gates in the order reset, update, new)."""
        w = self._weights
        from_input = w[f"{side}_w_ih"] @ x + w[f"{side}_b_ih"]
        from_hidden = w[f"{side}_w_hh"] @ hidden + w[f"{side}_b_hh"]
        size = hidden.shape[0]
        gates = 1 / (1 + np.exp(-(from_input[: 2 * size] + from_hidden[: 2 * size])))
        reset, update = gates[:size], gates[size:]
        new = np.tanh(from_input[2 * size :] + reset * from_hidden[2 * size :])
        mixed: _Array = (1 - update) * new + update * hidden
        return mixed


def _from_arpabet(symbols: list[str]) -> str:
    said: list[str] = []
    for symbol in symbols:
        name, stress = symbol.rstrip("012"), symbol[-1]
        phoneme = _KOKORO.get(name, "")
        if stress == "0":
            phoneme = {"AH": "ə", "ER": "əɹ"}.get(name, phoneme)
        mark = {"1": PRIMARY, "2": SECONDARY}.get(stress, "")
        said.append(mark + phoneme)
    joined = "".join(said)
    vowels = "".join(sorted(VOWELS))
    return re.sub(rf"(?<=[{vowels}ɹ])t(?=[{vowels}])", "ɾ", joined)


def _to_british(phonemes: str) -> str:
    """American phonemes to British: long vowels, no r before a consonant, no flap."""
    phonemes = phonemes.replace("ɾ", "t").replace("O", "Q")
    phonemes = re.sub(r"([ɑɔɜ])ɹ(?![AIQWYaiuæɑɒɔəɛɜɪʊʌˈˌ])", r"\1ː", phonemes)
    phonemes = re.sub(r"əɹ(?![AIQWYaiuæɑɒɔəɛɜɪʊʌˈˌ])", "ə", phonemes)
    phonemes = re.sub(r"([ˈˌ][iu])(?!ː)", r"\1ː", phonemes)
    return re.sub(r"ɑ(?!ː)", "ɒ", phonemes).replace("æ", "a")
