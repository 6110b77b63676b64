"""The judge of searches on a GPU is one that a run can name, and says what the three stages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.judging.grader import make_grader

FILE = Path(__file__).parents[2] / "benchmarks" / "gpu" / "rule_judge.py"


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [
        ("$1,200 million", "It was 1.2 billion dollars.", True), ("42 %", "It grew by 41 %.", False),
        ("the pension plan", "It is the pension plan.", True), ("the pension plan", "It is the bank loan.", False),
    ],
)  # fmt: skip
def test_it_judges_numbers_and_words_without_an_endpoint(gold: str, answer: str, is_right: bool) -> None:
    grader = make_grader(f"{FILE}:judge", lambda: pytest.fail("it is no three-stage judge"))
    found = grader.grade("What is it?", gold, answer)
    assert found.is_correct is is_right and found.reasoning
