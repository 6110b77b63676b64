"""Which answers are whole, and which run in a loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from tasks.judging.whole import ends_sentence, is_loop, is_whole

TEXTS = [json.loads(line) for line in Path(__file__).with_name("whole.jsonl").read_text(encoding="utf-8").splitlines()]


def test_which_texts_end_a_sentence_and_which_do_not_or_do_not_tell() -> None:
    assert len(TEXTS) > 50
    assert [one for one in TEXTS if ends_sentence(one["text"]) is not one["ends"]] == []


@pytest.mark.parametrize(
    ("text", "finish", "steered", "expected"),
    [
        ("42", "stop", False, True),  # the model ended it
        ("42", "stop", True, None),  # a delta may have
        ("It is 42 %.", "stop", True, True),
        ("It is 42 %.", "length", False, False),
        (" \n", "stop", False, False),
        ("", "stop", True, False),
    ],
)
def test_an_end_is_believed_unless_a_delta_may_have_made_it(
    text: str, finish: Literal["stop", "length"], steered: bool, expected: bool | None
) -> None:
    assert is_whole(text, finish, steered) is expected


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (list(range(40)), False),
        ([*range(9), *[7] * 16], True),
        ([*range(9), *[7] * 12], False),  # too short to tell
        ([*range(9), *[1, 2, 3, 4, 5, 6] * 3], True),
        ([*range(9), *[1, 2, 3, 4, 5, 6] * 3, 1, 2], True),  # the cap cut the last repetition
        ([*[1, 2, 3, 4, 5, 6] * 3, 9], False),  # it came out of it
        ([*range(20), *range(20)], False),  # twice is none
        ([], False),
    ],
)
def test_a_loop_repeats_one_n_gram_to_the_end(ids: list[int], expected: bool) -> None:
    assert is_loop(ids) is expected
