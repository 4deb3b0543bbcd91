from hypothesis import given
from hypothesis import strategies as st

from e3rg.turn.sentences import SentenceLimit, SentenceSplitter


def split(text: str, step: int = 3, **options: int) -> list[str]:
    splitter = SentenceSplitter(**options)
    pieces = []
    for start in range(0, len(text), step):
        pieces += splitter.feed(text[start : start + step])
    return pieces + splitter.finish()


def stripped(pieces: list[str]) -> list[str]:
    return [piece.strip() for piece in pieces]


def test_first_piece_ends_at_a_clause_and_later_ones_at_sentences() -> None:
    text = "I am so sorry, that must hurt. He was with you, every day. What was his name?"
    assert stripped(split(text)) == [
        "I am so sorry,",
        "that must hurt.",
        "He was with you, every day.",
        "What was his name?",
    ]


def test_a_long_first_sentence_may_end_at_a_breath() -> None:
    text = "Losing a friend like that is a heavy weight and it takes its time. And it may."
    assert stripped(split(text)) == [
        "Losing a friend like that is a heavy weight",
        "and it takes its time.",
        "And it may.",
    ]


def test_a_piece_is_given_as_soon_as_it_is_complete() -> None:
    splitter = SentenceSplitter(first_clause_chars=0)
    assert splitter.feed("It is late.") == []  # more dots might follow
    assert stripped(splitter.feed(" Sleep")) == ["It is late."]


def test_short_openers_are_not_torn_off() -> None:
    assert stripped(split("Oh, I see. Yes."))[0] == "Oh, I see."


def test_abbreviations_decimals_and_addresses_stay_whole() -> None:
    text = "Dr. Smith paid $3.50 at 5 p.m. on www.shop.com today. It was J. Brown, e.g. him."
    assert stripped(split(text, first_clause_chars=0)) == [
        "Dr. Smith paid $3.50 at 5 p.m. on www.shop.com today.",
        "It was J. Brown, e.g. him.",
    ]


def test_a_sentence_may_end_with_i_or_no() -> None:
    text = "So am I. You said no. I heard."
    assert stripped(split(text, first_clause_chars=0)) == ["So am I.", "You said no.", "I heard."]


def test_quotes_and_repeated_marks_belong_to_their_sentence() -> None:
    text = 'She said "Go away!" And then?!! Nothing...'
    assert stripped(split(text, first_clause_chars=0)) == [
        'She said "Go away!"',
        "And then?!!",
        "Nothing...",
    ]


def test_chinese_ends_without_spaces() -> None:
    assert split("我很难过。谢谢你！", step=1) == ["我很难过。", "谢谢你！"]


def test_a_text_without_an_end_is_cut_to_bounded_pieces() -> None:
    pieces = split("word " * 300, max_chars=100)
    assert all(len(piece) <= 100 for piece in pieces)
    assert "".join(pieces) == "word " * 300
    assert all(len(piece) <= 100 for piece in split("x" * 1000, max_chars=100))


@given(st.text(alphabet=" ab.,!?;:\n“”1…。", max_size=400), st.integers(1, 50))
def test_nothing_is_lost_whatever_the_deltas(text: str, step: int) -> None:
    assert "".join("".join(split(text, step)).split()) == "".join(text.split())


@given(st.integers(1, 60), st.integers(1, 5))
def test_a_limit_keeps_whole_sentences(step: int, sentences: int) -> None:
    text = "One here. And Mr. Two, too! Three? Four... Five is last."
    whole = ["One here.", " And Mr. Two, too!", " Three?", " Four...", " Five is last."]
    limit = SentenceLimit(sentences)
    kept = ""
    for start in range(0, len(text), step):
        part, ended = limit.feed(text[start : start + step])
        kept += part
        if ended:
            break
    assert kept == "".join(whole[:sentences])


@given(st.text(alphabet="ab .!?\n", max_size=120), st.integers(1, 40), st.integers(1, 4))
def test_a_limit_does_not_depend_on_the_deltas(text: str, step: int, sentences: int) -> None:
    def limited(size: int) -> str:
        limit, kept = SentenceLimit(sentences), ""
        for start in range(0, len(text), size):
            part, ended = limit.feed(text[start : start + size])
            kept += part
            if ended:
                break
        return kept

    assert text.startswith(limited(step))
    assert limited(step).split() == limited(1).split()


def test_a_limit_does_not_cut_words_after_blank_lines() -> None:
    limit = SentenceLimit(1)
    assert limit.feed("First one.\n\nSecond one.\n\nThird") == ("First one.", True)
