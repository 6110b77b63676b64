"""Indices as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.settings import select_indices


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("all", (0, 1, 2, 3, 4)),
        (" all ", (0, 1, 2, 3, 4)),
        ("", ()),
        ("3", (3,)),
        ("0-2, 4", (0, 1, 2, 4)),
        ("4,0 - 1", (4, 0, 1)),
        ("2-2", (2,)),
    ],
)
def test_what_indices_select_of_five_lines(text: str, selected: tuple[int, ...]) -> None:
    assert select_indices(text, 5) == selected


@given(st.lists(st.integers(0, 99), unique=True, min_size=1))
def test_any_distinct_indices_come_back_in_their_order(indices: list[int]) -> None:
    assert select_indices(",".join(map(str, indices)), 100) == tuple(indices)


def test_a_range_of_a_billion_is_refused_before_it_is_counted_out() -> None:
    with pytest.raises(ValueError, match="names 999999999, but the data set has 5 lines"):
        select_indices("0-999999999", 5)
