"""The limit that holds, and the longest text within it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tasks.cutting import SHORTEST, largest_length


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_the_largest_length_that_fits_is_found(longest: int, limit: int) -> None:
    found = largest_length(longest, lambda length: length <= limit)
    assert found == max(SHORTEST, min(longest, limit))
