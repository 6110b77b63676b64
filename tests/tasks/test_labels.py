"""What a person sees of a message: where it belongs, and none of what it carries."""

from __future__ import annotations

import importlib
import inspect

from tasks.labels import TaskLabel, format_label, parse_label
from tasks.queues import QUEUES, TASKS
from workers.app import create_app


def test_a_stage_tells_run_generation_and_child() -> None:
    line = format_label("openai.reflect", ["demo-1a2b3c4d", "g2_child", 3, "mut", 1])
    assert line == "run=demo-1a2b3c4d generation=2 child=3 phase=mut attempt=1"
    assert parse_label(line) == TaskLabel("demo-1a2b3c4d", "2", "child 3, mutated")


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
