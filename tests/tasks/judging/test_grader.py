"""One interface before three ways of judging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.judging.graders import (
    ExactNumber,
    Grader,
    ThreeStages,
    UserFunctionError,
    make_grader,
    needs_model,
    title_of,
)
from tasks.judging.verdict import JudgeReply, verdict_key
from tasks.records import Judge

SETTINGS = Judge("rules", 0.01, True, 0.0, 1.0, 512, 42, 4)
REPLY: dict[str, Any] = {
    "reasoning": "Both say so.", "category": "text", "normalized_gt": None, "normalized_pred": None,
    "relative_error_pct": None, "confidence": 0.8, "is_correct": True,
}  # fmt: skip


def ask(messages: tuple[str, str]) -> JudgeReply:
    return JudgeReply(**REPLY)


def three_stages() -> Grader:
    return ThreeStages(SETTINGS, ask, "https://judge.example")


def never() -> Grader:
    raise AssertionError("no endpoint is needed")


def test_the_three_stages_are_the_judge_as_it_was() -> None:
    grader = make_grader("three_stages", three_stages)
    assert grader.needs_model
    assert grader.grade("How much?", "$5 million", "$5 million").stage == 1
    assert grader.grade("What?", "It closed a yard.", "It closed one.").stage == 2
    row = ("How much?", "5", "6")
    assert grader.key(*row) == verdict_key(*row, SETTINGS, "https://judge.example")


def test_the_other_graders_are_made_without_an_endpoint() -> None:
    assert make_grader("exact_number", never) == ExactNumber()
    exact = make_grader("exact_number", never)
    assert exact.grade("How many?", "72", "So 72.").is_correct


def test_any_other_name_is_a_function_of_the_user() -> None:
    with pytest.raises(UserFunctionError, match="no entry point"):
        make_grader("three-stages", never)


def test_a_judge_without_a_model_is_named_in_reports() -> None:
    assert [needs_model(name) for name in ("three_stages", "exact_number", "my:function")] == [True, False, False]
    assert title_of("exact_number") == "exact final number (no language model)"
    assert title_of("my:function") == "the function my:function"


def test_a_function_is_loaded_once_so_that_its_key_belongs_to_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "judge_loaded_once.py"
    path.write_text("def judge(question, gold, answer):\n    return True\n")
    first = make_grader("judge_loaded_once:judge", never)
    path.write_text("def judge(question, gold, answer):\n    return False\n")
    assert make_grader("judge_loaded_once:judge", never) is first
