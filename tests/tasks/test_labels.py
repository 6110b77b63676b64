"""What a person sees of a message: where it belongs, and none of what it carries."""

from __future__ import annotations

import importlib
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.labels import TaskLabel, format_label, parse_label
from tasks.queues import QUEUES, TASKS
from workers.app import create_app


def test_a_stage_tells_run_generation_and_child() -> None:
    line = format_label("openai.reflect", ["demo-1a2b3c4d", "g2_child", 3, "mut", 1])
    assert line == "run=demo-1a2b3c4d generation=2 child=3 phase=mut attempt=1"
    assert parse_label(line) == TaskLabel("demo-1a2b3c4d", "2", "child 3, mutated")


@pytest.mark.parametrize(
    ("plan", "individual"), [("g0_pop", "individual 1"), ("g11_child", "child 1"), ("final", "final 1")]
)
def test_an_individual_is_named_as_its_plan_names_it(plan: str, individual: str) -> None:
    assert parse_label(format_label("gpu.answer", ["demo", plan, 1, "pre", 1])).individual == individual


def test_a_job_is_shown_by_its_label_or_by_the_beginning_of_its_key() -> None:
    job = ["demo", "compression:" + "0123456789ab" * 5 + "0123", 1]
    assert format_label("openai.compress", job, "sample_id_00007/2") == "run=demo job=sample_id_00007/2 attempt=1"
    assert format_label("openai.compress", job) == "run=demo job=compression:0123456789ab attempt=1"
    assert parse_label(format_label("openai.compress", job, "sample_id_00007/2")).individual == "sample_id_00007/2"


def test_texts_of_unknown_origin_are_counted_and_not_shown() -> None:
    line = format_label("cpu.plot", ["demo", "a secret of several words", 1])
    assert line == "run=demo job=(24 characters) attempt=1"
    assert format_label("celery.chain", ["what is this", 2]) == "arguments=2"


@given(st.text(), st.lists(st.text()))
def test_no_line_of_anybody_breaks_the_reading(task: str, arguments: list[str]) -> None:
    parse_label(task)
    assert parse_label(format_label(task, arguments)) == TaskLabel()


def test_every_task_of_the_queues_has_names_for_its_arguments() -> None:
    app = create_app({})
    for entry in TASKS.values():
        importlib.import_module(entry.module)
    app.finalize()
    ours = {name: task for name, task in app.tasks.items() if name.split(".")[0] in QUEUES}
    assert {name: len(inspect.signature(task.run).parameters) for name, task in ours.items()} == {
        name: len(TASKS[name].arguments) for name in ours
    }
    assert set(TASKS) == set(ours)
