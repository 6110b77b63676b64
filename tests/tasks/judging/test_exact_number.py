"""The final number of a text, and exact agreement with the gold's."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.judging.exact_number import ExactNumber, final_number

GRADER = ExactNumber()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("72", "72"),
        ("She sold 48 in April and 24 in May, 72 in all.", "72"),
        ("Natalia sold 48/2 = 24 clips in May.\nTogether 48+24 = 72.\n#### 72", "72"),
        ("#### 1,080\nThat took 12 steps.", "1080"),
        ("It costs $18.50.", "18.50"),
        ("Profit: -$5", "-5"),
        ("He owes −12 dollars", "-12"),
        ("10-5", "5"),
        ("The answers are:\n- 5", "5"),
        ("$10 - $12", "12"),
        ("5 − 3", "3"),
        ("x = - 4", "-4"),
        ("- -4", "-4"),
        ("from 2019–2021", "2021"),
        ("The answer is 18. She works 7 days a week.", "18"),
        ("The answer is 5 + 6 = 11.", "11"),
        ("The answer is $3 * 4$, which is 12", "12"),
        ("The answer is 10 - 4, so 6", "6"),
        ("Answer: **42** apples, of which 7 are red", "42"),
        ("The final answer is: $1,234.00. Of these 100 are new.", "1234.00"),
        ("So \\boxed{\\$70,000} is the profit after 2 years", "70000"),
        ("\\boxed{-3}", "-3"),
        ("It has 1.5 million people", "1500000"),
        ("5kg and 20-minute walks", "20"),
        ("Half is .5", "0.5"),
        ("1{,}200", "1200"),
        ("12,34", "12.34"),
        ("It is 7.", "7"),
    ],
)
def test_the_final_number_of_a_text(text: str, number: str) -> None:
    assert final_number(text) == Fraction(number)


@pytest.mark.parametrize("text", ["", "none", "the answer is unknown", "####", "-", "\\boxed{x}", "v1.2.3", "√2"])
def test_a_text_without_a_number_has_none(text: str) -> None:
    assert final_number(text) is None


@pytest.mark.parametrize(
    ("gold", "answer", "is_correct"),
    [
        ("72", "It is 72.0 clips", True),
        ("72", "It is 720", False),
        ("18", "#### 18", True),
        ("... so 9 * 2 = 18\n#### 18", "She makes $18 every day", True),
        ("0.1", "0.10", True),
        ("-5", "5", False),
        ("70000", "His profit is $70,000.", True),
        ("3", "", False),
        ("3", "three", False),
    ],
)
def test_right_is_the_same_number_exactly(gold: str, answer: str, is_correct: bool) -> None:
    verdict = GRADER.grade("How many?", gold, answer)
    assert (verdict.is_correct, verdict.stage, verdict.category) == (is_correct, 1, "numerical")
    assert verdict.reasoning


def test_the_reasoning_names_both_numbers() -> None:
    assert GRADER.grade("?", "72", "about 70").reasoning == "The answer's final number is 70, not 72."


def test_a_gold_without_a_number_is_an_error_and_no_verdict() -> None:
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
