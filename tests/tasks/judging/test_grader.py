"""One interface before three ways of judging."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.judging.graders import (
    make_grader,
    needs_model,
    title_of,
)
from tasks.judging.user_function import UserFunctionError


def test_exact_number_is_made_by_its_name_and_the_three_stages_need_a_model() -> None:
    exact = make_grader("exact_number")
    assert exact is not None and exact.grade("How many?", "72", "So 72.").is_correct
    assert make_grader("three_stages") is None


def test_any_other_name_is_a_function_of_the_user() -> None:
    with pytest.raises(UserFunctionError, match="no entry point"):
        make_grader("three-stages")


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
    first = make_grader("judge_loaded_once:judge")
    path.write_text("def judge(question, gold, answer):\n    return False\n")
    assert make_grader("judge_loaded_once:judge") is first
