"""Written text to spoken words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e3rg.stages.speech.normalize import normalize
from e3rg.stages.speech.numerals import cardinal, decimal, ordinal, year

CASES = {
    # money
    "I have $1,234.56.": "I have one thousand two hundred thirty-four dollars and fifty-six cents.",
    "$1 or €20": "one dollar or twenty euros",
    "£3.50": "three pounds and fifty pence",
    "$0.99": "ninety-nine cents",
    "-$5, 50€": "minus five dollars, fifty euros",
    "$5M and $1.5 billion": "five million dollars and one point five billion dollars",
    # numbers
    "1,000,000 people": "one million people",
    "3.14 and .5": "three point one four and point five",
    "It was -5.": "It was minus five.",
    "45.5% or 100%!": "forty-five point five percent or one hundred percent!",
    "1st 22nd 13th": "first twenty-second thirteenth",
    "1/2 or 3/4 or 2 1/2": "one half or three quarters or two and one half",
    "2+2=4": "two plus two equals four",
    "10x10": "ten by ten",
    "1920×1080": "one thousand nine hundred twenty by one thousand eighty",
    "007": "zero zero seven",
    "ages 10-15": "ages ten to fifteen",
    "a 7/10": "a seven out of ten",
    "½ cup": "one half cup",
    # dates and times
    "2024-05-12": "May twelfth, twenty twenty-four",
    "12/25/2023": "December twenty-fifth, twenty twenty-three",
    "25/12/2023": "December twenty-fifth, twenty twenty-three",
    "May 5, 2024.": "May fifth, twenty twenty-four.",
    "5 May 2024": "the fifth of May, twenty twenty-four",
    "since 1999": "since nineteen ninety-nine",
    "the 1990s and '80s": "the nineteen nineties and eighties",
    "10:30 am": "ten thirty A·M",
    "at 10:00": "at ten o'clock",
    "14:05": "fourteen oh five",
    "We left at 7 p.m. It rained.": "We left at seven P·M. It rained.",
    "2010-2020": "twenty ten to twenty twenty",
    # telephones and addresses
    "(555) 123-4567": "five five five, one two three, four five six seven",
    "+1 555 123 4567": "plus one, five five five, one two three, four five six seven",
    "See https://www.example.com/help.": "See example dot com slash help.",
    "Mail john.doe@example.co.uk!": "Mail john dot doe at example dot co dot U·K!",
    "192.168.1.1": "one hundred ninety-two dot one hundred sixty-eight dot one dot one",
    # measures
    "5km at 60 mph": "five kilometers at sixty miles per hour",
    "20°C": "twenty degrees Celsius",
    "1 mile, 16GB": "one mile, sixteen gigabytes",
    "5'10\" tall": "five foot ten tall",
    # abbreviations and letters
    "Dr. Smith met Mrs. Lee.": "Doctor Smith met Missus Lee.",
    "cats, e.g. mine, etc.": "cats, for example, mine, et cetera.",
    "I live in the U.S.": "I live in the U·S.",
    "The U.S. is big.": "The U·S is big.",
    "TVs and PCs": "T·Vs and P·Cs",
    "I like it. It helps US.": "I like it. It helps U·S.",
    "vitamin C and plan B": "vitamin C· and plan B·",
    "AT&T and R&D": "A·T and T· and R· and D·",
    "mp3": "mp three",
    "World War II": "World War two",
    # marks
    "**bold** _it_ `code` [link](http://x.org)": "bold it code link",
    "# Title\n- one\n- two": "Title. one. two.",
    "<b>hi</b> &amp; bye": "hi and bye",
    "Hello 😀 world 👨‍👩‍👧!!!": "Hello world!",
    "What?!?! Wait.....": "What? Wait…",
    "yes -- no - maybe": "yes — no — maybe",
    "“quoted” it’s 'fine'": "quoted it's fine",
    "She said (quietly) no": "She said, quietly, no",
    "con\x00trol\x1b char\u200b": "con trol char",
    "café, naïve, Müller, straße": "cafe, naive, Muller, strasse",
    "你好 Hello مرحبا": "Hello",
}


@pytest.mark.parametrize(("written", "spoken"), CASES.items())
def test_says_as_people_do(written: str, spoken: str) -> None:
    assert normalize(written) == spoken


@pytest.mark.parametrize(
    "text", ["", "   ", "...!!!", "😀😀", "你好", "مرحبا", "\x00\x07", "---", "* * *"]
)
def test_nothing_to_say(text: str) -> None:
    assert normalize(text) == ""


def test_a_full_stop_is_never_spoken() -> None:
    assert "point" not in normalize("It is 5. And then 6. Done.")
    assert "dot" not in normalize("I saw him.Then he left. The end.")


def test_every_word_survives() -> None:
    words = [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "a",
        "lazy",
        "dog",
        "while",
        "nobody",
        "at",
        "all",
        "looks",
    ]
    assert re.findall(r"\w+", normalize(", ".join(words * 50))) == words * 50


@given(st.text(max_size=200))
def test_any_text_gives_only_speakable_signs(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z'·\- ,.!?;:—…]*", normalize(text))


@given(st.text(alphabet="0123456789.,:/-$€£%xkM°C'#+=() apmst", max_size=40))
def test_any_figures_leave_no_digit(text: str) -> None:
    assert not re.search(r"\d", normalize(text))


def test_number_words() -> None:
    assert cardinal("0") == "zero"
    assert cardinal("1000001") == "one million one"
    assert cardinal("9" * 16).startswith("nine nine")
    assert ordinal("40") == "fortieth"
    assert year("1905") == "nineteen oh five"
    assert year("2000") == "two thousand"
    assert decimal("-1,250.05") == "minus one thousand two hundred fifty point zero five"
