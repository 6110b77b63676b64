"""Rows are judged in order, equal ones with one call, and no more of them are held than a window."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.runs.judge_file import WINDOW, judge_rows
from tasks.judging.rows import AnswerRow
from tasks.judging.verdict import Ask
from tasks.models import Judge
from tasks.openai.calls import ReplyCounter

SETTINGS = Judge("some-model", 0.01, True, 0.0, 1.0, 512, 42, concurrency=4)
SAYS = {"category": "text", "normalized_gt": None, "normalized_pred": None, "relative_error_pct": None}


def row(number: int) -> AnswerRow:
    return AnswerRow("Which one?", "The right one.", f"answer {number}")


class Model:
    """A judge that says which answer it was asked about; `before` is called first, with that answer."""

    def __init__(self, before: Any = lambda answer: None) -> None:
        self.before = before
        self.asked: list[str] = []

    def for_row(self, given: AnswerRow, counter: ReplyCounter) -> Ask:
        def ask(system: str, user: str, schema_name: str, schema: dict[str, Any]) -> dict[str, Any]:
            self.asked.append(given.answer)
            self.before(given.answer)
            return SAYS | {"reasoning": given.answer, "confidence": 1.0, "is_correct": True}

        return ask


def test_verdicts_come_in_the_order_of_the_rows_whichever_call_ends_first() -> None:
    # given a first call that ends after the second
    second = threading.Event()
    model = Model(lambda answer: second.wait(10) if answer == "answer 0" else second.set())
    found = [verdict.reasoning for verdict in judge_rows(map(row, range(9)), SETTINGS, model.for_row) if verdict]
    assert found == [f"answer {number}" for number in range(9)]


def test_a_row_that_comes_again_long_after_is_not_asked_again() -> None:
    # given rows of which each comes twice, further apart than a window
    model = Model()
    rows = [row(number) for number in range(2 * WINDOW)] * 2
    found = [verdict.reasoning for verdict in judge_rows(rows, SETTINGS, model.for_row) if verdict]
    # then each is asked once, and both have what was said of them
    assert sorted(model.asked) == sorted(r.answer for r in rows[: 2 * WINDOW])
    assert found == [r.answer for r in rows]


def test_no_more_rows_are_read_ahead_than_a_window_has() -> None:
    # given more rows than anybody could hold, and a call that does not end
    read = 0
    release = threading.Event()

    def endless() -> Iterator[AnswerRow]:
        nonlocal read
        while True:
            read += 1
            if read > WINDOW:
                release.set()
            yield row(read)

    model = Model(lambda answer: release.wait(10) if answer == "answer 1" else None)
    verdicts = judge_rows(endless(), SETTINGS, model.for_row)
    # when the first verdict is waited for
    first = next(verdicts)
    verdicts.close()
    # then no more than the window's rows were read meanwhile
    assert first is not None
    assert first.reasoning == "answer 1"
    assert read <= WINDOW + 1


def test_after_a_call_that_failed_no_more_are_made() -> None:
    # given a call that fails among many
    def fail(answer: str) -> None:
        if answer == "answer 5":
            raise ConnectionError("nobody is there")

    model = Model(fail)
    with pytest.raises(ConnectionError, match="nobody is there"):
        list(judge_rows(map(row, range(100_000)), SETTINGS, model.for_row))
    assert len(model.asked) <= WINDOW + SETTINGS.concurrency


def test_by_rule_alone_nobody_is_asked() -> None:
    number = AnswerRow("How much?", "$5 million", "It was $5 million.")
    found = list(judge_rows([row(1), number], SETTINGS, None))
    assert found[0] is None
    assert found[1] is not None
    assert found[1].stage == 1
