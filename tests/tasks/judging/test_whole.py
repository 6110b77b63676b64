"""Which answers are whole, and which run in a loop."""

from __future__ import annotations

from typing import Literal

import pytest

from tasks.judging.whole import ends_sentence, is_loop, is_whole

WHOLE = (
    "Sales grew.",
    "Is it? No.",
    "Answer: No.",
    "The margin is 12.5 %.",
    "Sales grew (in 2023).",
    '"Sales grew."',
    "**Sales grew.**\n",
    "He said: “Sales grew.”",
    "Er sagte: „Der Umsatz stieg.“",
    "The revenue was $5 million.",
    "A loss of $(1.2) million was booked.",
    "1. Sales grew.\n2. Costs fell.",
    "Call `f(` first.",
    "```python\nprint((\n```\nThat is all.",
    "It is $x = (2$.",
    r"So \(a + b\) is the sum.",
    "The interval is [0, 1), as asked.",
    '{"answer": "Sales grew."}',
    "Done 😀!",
    "收入增长了。",
    "收入是2023。",
    "（收入增长了。）",
    "ارتفعت المبيعات.",
    "هل ارتفعت؟",
    "बिक्री बढ़ी।",
)
UNSURE = (
    "",
    "Based on the context, we need to calculate the percentage of its revenue",
    "The growth was 2.",
    "42",
    "٢.",
    "Sales grew.\n2.",
    "Sales grew.\nb.",
    "Sales grew.\n  ii.",
    "Sales grew:",
    "It operates in the U.S.",
    "Some costs, e.g.",
    "Apple Inc.",
    "compared with Smith et al.",
    "And so on...",
    "And so on…",
    "等等。。。",
    "收入增长了，",
    "Great. 😀",
    "Sales grew (in Europe.",
    '{"answer": "Sales grew."',
    '{"answer": 42}',
    "```python\nprint('Hi.')\n```",
    "~~~\nSales grew.",
    "Call `f.",
    "So $x + y is large.",
    "$$\nx + y.",
    r"So \(a + b.",
    "「收入增长了。",
)


def test_which_texts_end_a_sentence_and_which_do_not_or_do_not_tell() -> None:
    assert [text for text in WHOLE if not ends_sentence(text)] == []
    assert [text for text in UNSURE if ends_sentence(text)] == []


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
