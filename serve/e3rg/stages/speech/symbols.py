"""Kokoro's input alphabet, and the cutting of long texts to the model's limit."""

from __future__ import annotations

import re

# Symbol → token of Kokoro-82M v1.0, for the symbols that English uses (the model card's config).
TOKENS = {
    ";": 1, ":": 2, ",": 3, ".": 4, "!": 5, "?": 6, "—": 9, "…": 10, " ": 16,
    "A": 24, "I": 25, "O": 31, "Q": 33, "T": 36, "W": 39, "Y": 41, "ᵊ": 42, "a": 43, "b": 44,
    "d": 46, "e": 47, "f": 48, "h": 50, "i": 51, "j": 52, "k": 53, "l": 54, "m": 55, "n": 56,
    "o": 57, "p": 58, "s": 61, "t": 62, "u": 63, "v": 64, "w": 65, "z": 68, "ɑ": 69, "ɐ": 70,
    "ɒ": 71, "æ": 72, "ɔ": 76, "ð": 81, "ʤ": 82, "ə": 83, "ɛ": 86, "ɜ": 87, "ɡ": 92, "ɪ": 102,
    "ŋ": 112, "θ": 119, "ɹ": 123, "ɾ": 125, "ʃ": 131, "ʧ": 133, "ʊ": 135, "ʌ": 138, "ʒ": 147,
    "ˈ": 156, "ˌ": 157, "ː": 158, "ᵻ": 177,
}  # fmt: skip

MAX_TOKENS = 510
"""The model's own limit, without the silent token at each end."""

_CUTS = (r"[.!?…]", r"[;:—]", r",", r" (?=[ˈˌ]?[^ ]{0,3} )", r" ")


def pieces(phonemes: str, limit: int) -> list[str]:
    """Cut phonemes into pieces of at most ``limit`` symbols, at the strongest pause near the end.

    Sentence ends come before clause ends, commas and word gaps; a word that is longer than the
    limit is cut anywhere. Nothing is lost but spaces at the cuts.
    """
    found: list[str] = []
    rest = phonemes.strip()
    while len(rest) > limit:
        cut = next(
            (
                marks[-1]
                for pattern in _CUTS
                if (marks := [m.end() for m in re.finditer(pattern, rest[:limit])])
                and marks[-1] > limit // 3
            ),
            limit,
        )
        found.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    return [piece for piece in [*found, rest] if piece]
