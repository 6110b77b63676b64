"""The limit that holds, and the longest text within it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tasks.cutting import SHORTEST, cut_middle, largest_length, smallest_limit


def test_of_several_limits_the_smallest_holds_and_0_is_none() -> None:
    assert (smallest_limit(0, 0), smallest_limit(0, 7), smallest_limit(9, 7), smallest_limit(9, 0)) == (0, 7, 7, 9)


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_the_largest_length_that_fits_is_found(longest: int, limit: int) -> None:
    found = largest_length(longest, lambda length: length <= limit)
    assert found == max(SHORTEST, min(longest, limit))


def test_a_text_that_is_short_enough_is_whole() -> None:
    assert cut_middle("a" * 90, 90) == "a" * 90
    assert cut_middle("a" * 91, 90) == "a" * 45 + " [... 1 characters cut ...] " + "a" * 45
