"""The arguments of a message are what the annotations of its task say, or the message is refused by name."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, Literal

import pytest
from celery import current_app

from tasks.message import ContentKey, Count, Delta, Refused, RunId, check_arguments, wrong
from tasks.queues import QUEUES, TASKS


def task(run: RunId, index: Count, which: Literal["pre", "mut"] = "pre", deltas: list[Delta] | None = None) -> None:
    """What is checked against."""


@pytest.mark.parametrize(
    "args",
    [["a-run_1", 0], ["r", 7, "mut"], ["r", 7, "pre", None], ["r", 7, "pre", []], ["r", 7, "pre", [1, -0.5, 1000]]],
)
def test_what_the_annotations_say_is_taken(args: list[Any]) -> None:
    check_arguments(task, args, {})
    check_arguments(task, args[:1], dict(zip(("index", "which", "deltas"), args[1:], strict=False)))


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["r"], "missing a required argument: 'index'"),
        (["r", 1, "pre", None, 5], "too many positional arguments"),
        (["../../x", 1], "run is '../../x', which is not"),
        (["r\n", 1], "run is 'r\\n'"),
        (["", 1], "run is ''"),
        ([7, 1], "run is 7, not text"),
        (["r", True], "index is True, not a whole number"),
        (["r", 1.0], "index is 1.0, not a whole number"),
        (["r", -1], "index is -1, not between 0 and 1e+09"),
        (["r", 1, "post"], "which is 'post', none of"),
        (["r", 1, "pre", [0.5, "x"]], "deltas [1] is 'x', not a finite number"),
        (["r", 1, "pre", [float("nan")]], "deltas [0] is nan, not a finite number"),
        (["r", 1, "pre", [1001]], "not between -1000 and 1000"),
        (["r", 1, "pre", {"0": 1}], "deltas is a dict of 1, not a list"),
    ],
)
def test_everything_else_is_refused_by_name(args: list[Any], reason: str) -> None:
    with pytest.raises(Refused) as refused:
        check_arguments(task, args, {})
    assert reason in str(refused.value) and "\n" not in str(refused.value)


def test_a_reason_is_short_whatever_the_value() -> None:
    assert len(wrong(RunId, "x" * 100_000) or "") < 200
    assert wrong(Any, {"anything": []}) is None
    assert wrong(ContentKey, "answer:" + "0" * 64) is None


def test_an_annotation_that_is_not_known_is_not_passed_over() -> None:
    with pytest.raises(TypeError, match="set"):
        wrong(set[int], [1])


def test_every_task_of_every_queue_says_which_runs_it_takes() -> None:
    for entry in TASKS.values():
        importlib.import_module(entry.module)
    ours = {name: one for name, one in current_app.tasks.items() if name.startswith(tuple(f"{q}." for q in QUEUES))}
    assert len(ours) > 10
    for name, one in ours.items():
        with pytest.raises(Refused, match="run is"):
            others = len(inspect.signature(one.run).parameters) - 1
            check_arguments(one.run, ["../" + name, *([None] * others)], {})
