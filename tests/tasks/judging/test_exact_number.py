"""Exact agreement of final numbers on any texts; `cases.jsonl` has its verdicts."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.judging.exact_number import ExactNumber, final_number

GRADER = ExactNumber()


def test_the_reasoning_names_both_numbers_and_a_gold_without_one_is_an_error() -> None:
    verdict = GRADER.grade("?", "72", "about 70")
    assert (verdict.stage, verdict.category) == (1, "numerical")
    assert verdict.reasoning == "The answer's final number is 70, not 72."
    with pytest.raises(ValueError, match=r"'It closed a yard\.' has no number"):
        GRADER.grade("What did it do?", "It closed a yard.", "7")


def test_the_key_depends_on_gold_and_answer_alone() -> None:
    assert GRADER.key("a", "7", "8") == GRADER.key("b", "7", "8")
    assert len({GRADER.key("a", "7", "8"), GRADER.key("a", "78", ""), GRADER.key("a", "8", "7")}) == 3


@given(
    st.decimals(min_value=-(10**9), max_value=10**9, places=2), st.sampled_from(["{:,}", "{}", "It is {}.", "a\n{}"])
)
def test_whatever_number_is_written_is_read(number: Decimal, template: str) -> None:
    assert final_number(template.format(number)) == Fraction(number)


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    assert not GRADER.grade("?", "987654321987", text.replace("9", "")).is_correct
