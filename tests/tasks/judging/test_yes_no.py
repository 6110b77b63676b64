"""The side that a text takes."""

import pytest

from tasks.judging.yes_no import polarity


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("Yes", "yes"),
        ("**No**, it did not.", "no"),
        (" no the margins declined", "no"),
        ("YES. It did", "yes"),
        ("None of them", None),
        ("Not at all", None),
        ("No. 4 of the list", None),
        ("Nobody knows, yes", None),
        ("", None),
    ],
)
def test_a_text_takes_a_side_with_its_first_word(text: str, side: str | None) -> None:
    assert polarity(text) == side
