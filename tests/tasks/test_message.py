"""The arguments of a message are what the annotations of its task say, or the message is refused by name."""

from __future__ import annotations

import importlib
import inspect
import threading
from typing import Any, Literal

import pytest
from celery import Celery
from pydantic import PydanticSchemaGenerationError

from tasks.message import ContentKey, Count, Deltas, MessageRefused, RunId, check_arguments
from tasks.queues import QUEUES, TASKS
from tasks.validation import InvalidData, check_value


def task(run: RunId, index: Count, which: Literal["pre", "mut"] = "pre", deltas: Deltas | None = None) -> None:
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
        (["../../x", 1], "run: '../../x' does not match"),
        (["r\n", 1], "run: 'r\\n' does not match"),
        (["", 1], "run: '' does not match"),
        ([7, 1], "run: 7 is not text"),
        (["r", True], "index: True is not a whole number"),
        (["r", 1.0], "index: 1.0 is not a whole number"),
        (["r", -1], "index: -1 must be at least 0"),
        (["r", 1, "post"], "which: 'post' is not 'pre' or 'mut'"),
        (["r", 1, "pre", [0.5, "x"]], "deltas[1]: 'x' is not a number"),
        (["r", 1, "pre", [float("nan")]], "deltas[0]: nan is not a finite number"),
        (["r", 1, "pre", [-1001]], "deltas[0]: -1001 must be at least -1000"),
        (["r", 1, "pre", [1001]], "deltas[0]: 1001 must be at most 1000"),
        (["r", 1, "pre", {"0": 1}], "deltas: a dict of 1 is not a list"),
    ],
)
def test_everything_else_is_refused_by_name(args: list[Any], reason: str) -> None:
    with pytest.raises(MessageRefused) as refused:
        check_arguments(task, args, {})
    assert reason in str(refused.value) and "\n" not in str(refused.value)


def test_a_reason_is_short_whatever_the_value() -> None:
    with pytest.raises(InvalidData) as invalid:
        check_value(RunId, "x" * 100_000)
    assert len(str(invalid.value)) < 200
    assert check_value(ContentKey, "answer:" + "0" * 64)


def test_an_annotation_that_is_not_known_is_not_passed_over() -> None:
    def unknown(run: RunId, ended: threading.Event) -> None:
        """What is checked against."""

    with pytest.raises(PydanticSchemaGenerationError, match="Event"):
        check_arguments(unknown, ["r", None], {})


def test_every_task_of_every_queue_says_which_runs_it_takes() -> None:
    for entry in TASKS.values():
        importlib.import_module(entry.module)
    app = Celery(set_as_current=False)
    ours = {name: one for name, one in app.tasks.items() if name.startswith(tuple(f"{q}." for q in QUEUES))}
    assert len(ours) > 10
    for name, one in ours.items():
        with pytest.raises(MessageRefused, match="run: "):
            others = len(inspect.signature(one.run).parameters) - 1
            check_arguments(one.run, ["../" + name, *([None] * others)], {})
