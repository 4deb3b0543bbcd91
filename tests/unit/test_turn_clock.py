import pytest
from hypothesis import given
from hypothesis import strategies as st

from e3rg.media.types import Pcm
from e3rg.turn.clock import MediaClock


@given(st.lists(st.integers(1, 50_000), max_size=40))
def test_every_sentence_is_whole_frames_and_nothing_drifts(lengths: list[int]) -> None:
    clock = MediaClock(24_000, 25)
    end = 0
    for length in lengths:
        padded, first = clock.place(Pcm(b"\x01\x02" * length, 24_000))
        assert first == end
        assert padded.samples % 960 == 0
        assert 0 <= padded.samples - length < 960
        assert padded.data[: 2 * length] == b"\x01\x02" * length
        end += padded.samples
    assert clock.frames * 960 == clock.samples == end


def test_slices_of_a_sentence_join_to_the_sentence() -> None:
    clock = MediaClock(24_000, 25)
    audio, _ = clock.place(Pcm(bytes(range(250)) * 100, 24_000))
    total = audio.samples // 960
    parts = [clock.slice(audio, 0, 5), clock.slice(audio, 5, 2), clock.slice(audio, 7, total - 7)]
    assert b"".join(part.data for part in parts) == audio.data


def test_rates_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple"):
        MediaClock(22_050, 24)
    with pytest.raises(ValueError, match="Hz"):
        MediaClock(24_000, 25).place(Pcm(b"", 16_000))
