import pytest

from e3rg.errors import E3RGError
from e3rg.gateway.intake import clean_text


def clean(text: str, limit: int = 4000, languages: tuple[str, ...] = ("en",)) -> str:
    return clean_text(text, limit, languages)


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\x00\x07", "\u200e\u0000 "])
def test_blank(text: str) -> None:
    with pytest.raises(E3RGError) as caught:
        clean(text)
    assert (caught.value.code, caught.value.param) in {
        ("text_empty", "text"),
        ("text_no_words", "text"),
    }


def test_too_long_names_both_lengths() -> None:
    with pytest.raises(E3RGError, match=r"50000 characters; at most 4000") as caught:
        clean("a" * 50_000)
    assert caught.value.code == "text_too_long"


@pytest.mark.parametrize("text", ["...", "?!", "—", "( ) ,", "¿¡"])
def test_punctuation_alone_is_refused(text: str) -> None:
    with pytest.raises(E3RGError) as caught:
        clean(text)
    assert caught.value.code == "text_no_words"


def test_emoji_alone_become_their_names() -> None:
    assert clean("😭😭💔") == "loudly crying face, broken heart"
    assert clean("🙂👍🏽") == "slightly smiling face, thumbs up sign"


@pytest.mark.parametrize(
    "text", ["我昨天失去了我的狗。", "فقدت كلبي أمس", "Вчера умерла моя собака"]
)
def test_other_scripts_name_what_is_known(text: str) -> None:
    with pytest.raises(E3RGError, match="en") as caught:
        clean(text)
    assert (caught.value.code, caught.value.status) == ("unsupported_language", 422)


def test_a_profile_may_know_more_languages() -> None:
    assert clean("我昨天失去了我的狗。", languages=("en", "zh")) == "我昨天失去了我的狗。"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("I lost\x00 my\r\n  dog\x1b[31m!", "I lost my dog [31m!"),
        ("On 3/4/2024 I paid $1,200.50 at https://a.b/c?d=e for a 10x10 room", None),
        ("My café in 東京 is closed", None),
        ("broken \ud800 half", "broken half"),
    ],
)
def test_ordinary_text_passes(text: str, kept: str | None) -> None:
    assert clean(text) == (text if kept is None else kept)
