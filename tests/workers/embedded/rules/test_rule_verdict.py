"""The judge by rules: numbers with their units, dates, yes and no, and words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.common.validation import check_value
from tasks.judging import verdict as prompt
from workers.embedded.rules import verdict


def judged(gold: str, said: str, question: str = "What is it?", tolerance: float = 0.15) -> dict[str, Any]:
    return verdict.judge_by_rules(verdict.JudgeInput(question, gold, said, tolerance))


@pytest.mark.parametrize(
    ("gold", "said", "is_correct"),
    [
        ("$1577.00", "It was $1,577 in 2018.", True),
        ("$1577.00", "The year was 2018, on page 1577 of 2020... no: 900", False),
        ("$1577.00", "About 2,400.", False),
        ("$1577.00", "Some figures: $900, $1577, $2000, $4000.", False),
        ("$25", "It was 25%.", False),
        ("65.4%", "0.654", True),
        ("65.4%", "The margin is 65%.", True),
        ("65.4%", "The page does not provide the margin; 65.4% is usual.", False),
        ("-$12 million", "a loss of (12) million", True),
        ("-3.1%", "3.1%", False),
        ("0", "It was 0.", True),
        ("0", "It was 4.", False),
        ("1994", "Founded in 1994 by 12 people.", True),
        ("1994", "Founded in 1990, listed in 1994.", False),
        ("1994", "Founded by 12 people.", False),
        ("Yes, it grew by 4%.", "Yes.", True),
        ("Yes, it grew by 4%.", "No, it fell.", False),
        ("No. The ratio is stable.", "No, the ratio is stable", True),
        ("Yes, it grew by 4%.", "I cannot tell from the page.", False),
        ("Yes, it grew by 4%.", "Revenue did not grow by 4%.", False),
        ("The company sells bicycles and helmets.", "Bicycles and helmets, sold by the company.", True),
        ("The company sells bicycles and helmets.", "The company is old.", False),
        ("The company sells bicycles and helmets.", "", False),
        ("Consumer shrank by 0.9%", "The consumer segment shrank by 0.9%", True),
        ("Consumer sales in Norway shrank by 40 basis points", "Norway: consumer demand fell 0.4%", True),
        ("Consumer sales in Norway shrank by 40 basis points", "Norway: consumer demand fell 3%", False),
    ],
)
def test_the_judge(gold, said, is_correct):
    assert judged(gold, said)["is_correct"] == is_correct


def judge_message(gold: str, said: str, question: str = "How much?") -> str:
    return prompt.user_message(question, gold, said)


def test_the_verdict_has_its_keys_in_order_and_the_tolerance_of_the_prompt():
    message = judge_message("$100", "It was 110")
    reply = verdict.answer("Allow 15% tolerance.", message)
    assert list(reply) == list(prompt.JudgeReply.model_fields) and check_value(prompt.JudgeReply, reply)
    assert (reply["normalized_gt"], reply["normalized_pred"], reply["relative_error_pct"]) == (100.0, 110.0, 10.0)
    assert reply["is_correct"] is True
    assert verdict.answer("Allow 5% tolerance.", message)["is_correct"] is False


def test_the_numbers_of_a_reply_are_those_that_were_compared():
    def numbers(gold: str, said: str, question: str = "How much?") -> list[float | None]:
        reply = verdict.answer(prompt.system_message(0.01, True), judge_message(gold, said, question))
        return [reply[name] for name in ("normalized_gt", "normalized_pred", "relative_error_pct")]

    assert numbers("65.4%", "It was 0.654.") == [65.4, pytest.approx(65.4), pytest.approx(0.0)]
    assert numbers("$1577.00", "$1.5 billion", "Capex (in USD millions)?") == [1577.0, 1500.0, pytest.approx(4.8827)]
    assert numbers("0", "It was 4.") == [0.0, 4.0, None]
    # What was not compared is not reported: stage 3 of the judge would take it for an agreement.
    assert numbers("$25", "It was 25%.") == [25.0, None, None]
    assert numbers("65.4%", "The page does not provide the margin; 65.4% is usual.") == [65.4, None, None]
    assert numbers("It sells bicycles.", "It sells 3 bicycles.") == [None, None, None]
    assert numbers("1", "9" * 400) == [1.0, None, None]


NUMBER = st.from_regex(r"(about )?-?\$?[0-9]{1,5}(\.[0-9]{1,2})?( ?%| million| billion)?", fullmatch=True)


@given(st.text() | NUMBER, st.text() | NUMBER)
def test_any_gold_and_any_answer_get_a_verdict_that_fits_the_schema(gold, said):
    assert check_value(prompt.JudgeReply, verdict.answer("", judge_message(gold, said)))
