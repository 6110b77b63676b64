"""The queues, and every task that goes to them: the module that defines it and the names of its arguments.

A task's name begins with its queue ("gpu.answer"), and Celery routes it by that alone.  A new job is its module and
one line of `TASKS`; a new stage is its module and a place in `tasks/plan.py`.  The sender of a task writes
beside its arguments how every monitor shows them, never with a text, a key or a list:

    run=demo-1a2b3c4d generation=2 child=3 phase=mut attempt=1
    run=collect-5e6f7a8b job=sample_id_00007/2 attempt=1
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from tasks.plan import STAGES, StageName

QueueName = Literal["gpu", "openai", "cpu"]
QUEUES: tuple[QueueName, ...] = get_args(QueueName)


class TaskEntry(NamedTuple):
    """`module` defines the task; `arguments` are the names of its parameters, in their order."""

    module: str
    arguments: tuple[str, ...]


_STAGE = ("run", "plan", "index", "phase", "attempt")
_JOB = ("run", "job", "attempt")

STAGE_TASKS: Mapping[StageName, str] = {name: f"{queue}.{name}" for name, queue in STAGES.items()}
"""The task of each stage of a plan."""

TASKS: Mapping[str, TaskEntry] = {
    **{task: TaskEntry(f"tasks.{task}", _STAGE) for task in STAGE_TASKS.values()},
    "gpu.processor": TaskEntry("tasks.gpu.processor", _JOB),
    "gpu.cluster": TaskEntry("tasks.gpu.cluster", _JOB),
    "gpu.lengths": TaskEntry("tasks.gpu.jobs", _JOB),
    "gpu.sample": TaskEntry("tasks.gpu.jobs", _JOB),
    "gpu.identity": TaskEntry("tasks.gpu.jobs", _JOB),
    "gpu.tokenizer": TaskEntry("tasks.gpu.jobs", _JOB),
    "gpu.rollout": TaskEntry("tasks.gpu.rollout", _JOB),
    "gpu.prompt_lengths": TaskEntry("tasks.gpu.rollout", _JOB),
    "gpu.critique": TaskEntry("tasks.gpu.rollout", _JOB),
    "gpu.propose": TaskEntry("tasks.gpu.rollout", _JOB),
    "gpu.bases": TaskEntry("tasks.route.jobs", _JOB),
    "gpu.train": TaskEntry("tasks.route.jobs", _JOB),
    "gpu.evaluate": TaskEntry("tasks.route.jobs", _JOB),
    "openai.critique": TaskEntry("tasks.guide.by_endpoint", _JOB),
    "openai.propose": TaskEntry("tasks.guide.by_endpoint", _JOB),
    "openai.compress": TaskEntry("tasks.collect.jobs", _JOB),
    "openai.verdict": TaskEntry("tasks.collect.jobs", _JOB),
    "openai.describe": TaskEntry("tasks.openai.describe", _JOB),
    "cpu.plot": TaskEntry("tasks.cpu.plot", _JOB),
    "cpu.gather": TaskEntry("tasks.cpu.score", ("run", "plan", "attempt")),
    "cpu.tokenize": TaskEntry("tasks.collect.tokens", _JOB),
    "cpu.pool": TaskEntry("tasks.route.jobs", _JOB),
    "cpu.verify": TaskEntry("tasks.cpu.guide", _JOB),
}


def queue_of(task: str) -> str:
    """The queue of a task, by its name."""
    return task.partition(".")[0]


def modules_of(queue: str) -> tuple[str, ...]:
    """The modules that a worker of this queue imports."""
    if queue not in QUEUES:
        raise KeyError(queue)
    return tuple(dict.fromkeys(entry.module for task, entry in TASKS.items() if queue_of(task) == queue))


_PLAN = re.compile(r"g(\d+)_(pop|child)")
_NODE = re.compile(r"g(\d+)_(pop|child)(\d+)(_mut)?")
_KIND = {"pop": "individual", "child": "child"}
LABEL = "whetstone_label"  # the header of a job's message that holds its label
SHOWN_OF_A_KEY = 24  # characters
_LONGEST = 80  # characters; nothing that is shown as it is may be longer


@dataclass(frozen=True)
class TaskLabel:
    """The parts of a line, in words; "" for what it does not name."""

    run: str = ""
    generation: str = ""
    individual: str = ""


def format_label(task: str, arguments: Sequence[Any], label: str = "") -> str:
    """The line for a task's arguments.  Of an unknown task only the number of arguments is shown.

    `label` is what a person calls a job; without it the beginning of the job's key is shown.
    """
    if task not in TASKS or len(arguments) != len(TASKS[task].arguments):
        return f"arguments={len(arguments)}"
    values = dict(zip(TASKS[task].arguments, arguments, strict=True))
    plan, index = values.pop("plan", None), values.pop("index", None)
    if "job" in values:
        values["job"] = label or str(values["job"])[:SHOWN_OF_A_KEY]
    parts = [("run", values.pop("run"))]
    if plan is not None:
        parts += _of_plan(str(plan), index)
    return " ".join(f"{name}={_value(value)}" for name, value in [*parts, *values.items()])


def parse_label(line: str) -> TaskLabel:
    """The parts of a line; empty for a line that is not ours."""
    values = dict(part.split("=", 1) for part in line.split() if "=" in part)
    if not line.startswith("run="):
        return TaskLabel()
    kind = next((kind for kind in ("child", "individual", "final") if kind in values), "")
    mutated = ", mutated" if values.get("phase") == "mut" else ""
    individual = f"{kind} {values[kind]}{mutated}" if kind else values.get("job", "")
    return TaskLabel(values["run"], values.get("generation", ""), individual)


def label_of_node(run: str, node: str) -> TaskLabel:
    """The parts for what a failure's record calls its node: "g2_child3_mut", or the label of a job."""
    if (found := _NODE.fullmatch(node)) is None:
        return TaskLabel(run, "", node)
    generation, kind, index, mutated = found.groups()
    return TaskLabel(run, generation, f"{_KIND[kind]} {index}{', mutated' if mutated else ''}")


def _of_plan(plan: str, index: Any) -> list[tuple[str, Any]]:
    found = _PLAN.fullmatch(plan)
    if found is None:
        return [("plan", plan)] if index is None else [(plan, index)]
    generation = [("generation", found[1])]
    return generation if index is None else [*generation, (_KIND[found[2]], index)]


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple, dict)):
        return str(len(value))
    text = str(value)
    return text if len(text) <= _LONGEST and not re.search(r"[\s=]", text) else f"({len(text)} characters)"
