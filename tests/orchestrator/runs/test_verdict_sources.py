"""Judges without a model: chosen by name, announced, and given up at a row that they cannot judge."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest

from orchestrator.runs.verdict_sources import JudgingFailed, by_grader, load_grader
from orchestrator.settings import SettingsError, judging_settings
from orchestrator.signals import Terminated
from tasks.judging.rows import AnswerRow
from tasks.models import Verdict

JUDGE = judging_settings(None)[0]


def test_only_the_three_stages_need_a_model() -> None:
    assert load_grader(JUDGE) is None
    assert load_grader(dataclasses.replace(JUDGE, name="exact_number")) is not None
    with pytest.raises(SettingsError, match="cannot be loaded"):
        load_grader(dataclasses.replace(JUDGE, name="no_such_module:judge"))


def test_rows_are_judged_in_order_until_one_that_the_judge_cannot_read() -> None:
    grader, said = load_grader(dataclasses.replace(JUDGE, name="exact_number")), list[str]()
    assert grader is not None
    rows = [
        AnswerRow("How many?", "72", "So 72."),
        AnswerRow("How many?", "72", "70."),
        AnswerRow("Who?", "Ann", "Ann"),
    ]
    found = by_grader(iter(rows), grader, "exact_number", said.append)
    assert [verdict and verdict.is_correct for verdict in (next(found), next(found))] == [True, False]
    with pytest.raises(JudgingFailed, match="has no number"):
        next(found)
    assert said == ["judge: exact final number (no language model); cost: free"]


@dataclasses.dataclass(frozen=True)
class Raising:
    """A judge that raises."""

    error: BaseException
    needs_model: ClassVar[bool] = False

    def key(self, question: str, gold: str, answer: str) -> str:
        return f"{question} {gold} {answer}"

    def grade(self, question: str, gold: str, answer: str) -> Verdict:
        raise self.error


class Stop(BaseException):
    pass


def test_whatever_a_judge_raises_is_a_failure_but_what_a_signal_raises_is_none() -> None:
    rows = [AnswerRow("How many?", "72", "So 72.")]
    with pytest.raises(JudgingFailed, match=r"^the judge my_judges:stops failed: Stop: enough$"):
        next(by_grader(iter(rows), Raising(Stop("enough")), "my_judges:stops", lambda _: None))
    for signalled in (KeyboardInterrupt(), Terminated()):
        with pytest.raises(type(signalled)):
            next(by_grader(iter(rows), Raising(signalled), "my_judges:stops", lambda _: None))
