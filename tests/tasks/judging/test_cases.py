"""Every judge on answers whose verdict is known: `cases.jsonl` has them, each with the reason of its verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.judging.exact_number import ExactNumber, final_number
from tasks.judging.numbers import accepted_answers, without_thinking
from tasks.judging.rule import find_match
from workers.embedded.rules.verdict import JudgeInput, judge_by_rules

CASES = [json.loads(line) for line in (Path(__file__).parent / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
TOLERANCE = 0.01  # of a case that names no other
EXACT = ExactNumber()


def exact_number(question: str, gold: str, answer: str, _: float) -> bool:
    return EXACT.grade(question, gold, answer).is_correct


def stage_1(question: str, gold: str, answer: str, tolerance: float) -> bool:
    visible = without_thinking(answer)
    return any(find_match(question, one, visible, tolerance) for one in accepted_answers(gold))


def rules(question: str, gold: str, answer: str, tolerance: float) -> bool:
    visible = without_thinking(answer)
    return any(
        judge_by_rules(JudgeInput(question, one, visible, tolerance))["is_correct"] for one in accepted_answers(gold)
    )


JUDGES: dict[str, Callable[[str, str, str, float], bool]] = {f.__name__: f for f in (exact_number, stage_1, rules)}


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_is_right_on_the_cases_that_concern_it(name: str) -> None:
    judge, cases = JUDGES[name], [case for case in CASES if name in case["judges"]]
    assert len(cases) > 50
    wrong = [
        c for c in cases if judge(c["question"], c["gold"], c["answer"], c.get("tolerance", TOLERANCE)) != c["right"]
    ]
    assert [(c["gold"], c["answer"], c["right"], c["reason"]) for c in wrong] == []


def test_a_gold_without_a_number_is_an_error_of_the_exact_number() -> None:
    assert "70" in EXACT.grade("?", "72", "about 70").reasoning
    with pytest.raises(ValueError, match="It closed a yard"):
        EXACT.grade("What did it do?", "It closed a yard.", "7")


def test_the_key_of_an_exact_number_depends_on_gold_and_answer_alone() -> None:
    assert EXACT.key("a", "7", "8") == EXACT.key("b", "7", "8")
    assert len({EXACT.key("a", "7", "8"), EXACT.key("a", "78", ""), EXACT.key("a", "8", "7")}) == 3


@given(st.decimals(-(10**9), 10**9, places=2), st.sampled_from(["{:,}", "{}", "It is {}.", "a\n{}"]), st.text())
def test_whatever_number_is_written_is_read_and_no_text_breaks_it(number: Decimal, template: str, text: str) -> None:
    assert final_number(template.format(number)) == Fraction(number)
    assert not EXACT.grade("?", "987654321987", text.replace("9", "")).is_correct
