"""Words to Kokoro's phonemes."""

import pytest

from e3rg.config import model_dir
from e3rg.models.store import ModelStore
from e3rg.stages.speech.g2p import Pronouncer
from e3rg.stages.speech.letters import LetterNetwork
from e3rg.stages.speech.lexicon import Lexicon
from e3rg.stages.speech.symbols import TOKENS, pieces


def pronouncer(prefix: str) -> Pronouncer:
    path = ModelStore(model_dir()).path
    gold, silver = (path(f"kokoro/lexicon/{prefix}_{kind}.json") for kind in ("gold", "silver"))
    return Pronouncer(
        Lexicon.read(gold, silver, british=prefix == "gb"),
        LetterNetwork(path("kokoro/lexicon/letters.npz")),
    )


@pytest.fixture(scope="module")
def us() -> Pronouncer:
    return pronouncer("us")


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("hello", "həlˈO"),
        ("The apple and the dog", "ði ˈæpᵊl ænd ðə dˈɔɡ"),
        ("to open, to go", "tʊ ˈOpᵊn, tə ɡˌO"),
        ("I read it yesterday.", "ˌI ɹˈɛd ɪt jˈɛstəɹdˌA."),
        ("I will read it.", "ˌI wɪl ɹˈid ɪt."),
        ("I live here", "ˌI lˈɪv hˈɪɹ"),
        ("a live show", "ɐ lˈIv ʃˈO"),
        ("Close the door. It is close.", "klˈOz ðə dˈɔɹ. ɪt ɪz klˈOs."),
        ("record the record", "ɹəkˈɔɹd ðə ɹˈɛkəɹd"),
        ("he used to use it", "hi jˈust tə jˈuz ɪt"),
        ("U·S·A", "jˌuˌɛsˈA"),
        ("FBI", "ˌɛfbˌiˈI"),
        ("NASA", "nˈæsə"),
        ("T·Vs", "tˌivˈiz"),
        ("soooo", "sˌO"),
        ("twenty-one", "twˌɛntiwˈʌn"),
        ("butter", "bˈʌTəɹ"),
        ("chatbots", "ʧˈætbˌɑts"),
        ("James's", "ʤˈAmzᵻz"),
    ],
)
def test_known_words(us: Pronouncer, text: str, phonemes: str) -> None:
    assert us(text) == phonemes


def test_unknown_words_are_all_said_and_stressed(us: Pronouncer) -> None:
    for word in ("Zelenskyy", "kubernetes", "blorptastic", "x" * 60, "Qzv"):
        said = us(word)
        assert said and set(said) <= set(TOKENS)
        assert "ˈ" in said


def test_british_is_not_american(us: Pronouncer) -> None:
    uk = pronouncer("gb")
    assert uk("dance, hello, water") == "dˈɑːns, həlˈQ, wˈɔːtə"
    assert us("dance, hello, water") == "dˈæns, həlˈO, wˈɔTəɹ"
    assert "ɹ" not in uk("Blarkor")


def test_long_phonemes_are_cut_at_pauses_and_nothing_is_lost() -> None:
    text = "wˈʌn tˈu θɹˈi, fˈɔɹ fˈIv. " * 40
    cut = pieces(text, 100)
    assert all(len(piece) <= 100 for piece in cut)
    assert all(piece.endswith(".") for piece in cut)
    assert " ".join(cut) == text.strip()
    assert "".join(pieces("a" * 1234, 100)) == "a" * 1234
