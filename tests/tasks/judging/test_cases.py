"""Every judge on answers whose verdict is known: `cases.jsonl` has them, each with the reason of its verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.judging.exact_number import ExactNumber
from tasks.judging.numbers import accepted_answers, without_thinking
from tasks.judging.rule import find_match
from workers.embedded.rules.verdict import JudgeInput, judge_by_rules

CASES = [json.loads(line) for line in (Path(__file__).parent / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
TOLERANCE = 0.01  # of a case that names no other


def exact_number(question: str, gold: str, answer: str, _: float) -> bool:
    return ExactNumber().grade(question, gold, answer).is_correct


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
    cases = [case for case in CASES if name in case["judges"]]
    wrong = [
        c
        for c in cases
        if JUDGES[name](c["question"], c["gold"], c["answer"], c.get("tolerance", TOLERANCE)) != c["right"]
    ]
    print(f"{name}: right on {len(cases) - len(wrong)} of {len(cases)}")
    assert [(c["gold"], c["answer"], c["right"], c["reason"]) for c in wrong] == []
