"""The queues, and every task that goes to them: the module that defines it and the names of its arguments.

A task's name begins with its queue ("gpu.answer"), and Celery routes it by that alone.  A new job is its module and
one line of `TASKS`; a new stage is its module and a place in `tasks/plan.py`.  The sender of a task writes
beside its arguments how every monitor shows them, never with a text, a key or a list:

    run=demo-1a2b3c4d generation=2 child=g2_child3_mut attempt=1
    run=collect-5e6f7a8b job=sample_id_00007/2 attempt=1
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from tasks.plan import STAGES, StageName, node_id

QueueName = Literal["gpu", "openai", "cpu"]
QUEUES: tuple[QueueName, ...] = get_args(QueueName)


class TaskEntry(NamedTuple):
    module: str
    arguments: tuple[str, ...]


_STAGE = ("run", "plan", "index", "phase", "attempt")
_JOB = ("run", "job", "attempt")

STAGE_TASKS: Mapping[StageName, str] = {name: f"{queue}.{name}" for name, queue in STAGES.items()}
"""The task of each stage of a plan."""

TASKS: Mapping[str, TaskEntry] = {
    **{task: TaskEntry(f"tasks.{task}", _STAGE) for task in STAGE_TASKS.values()},
    "openai.merge": TaskEntry("tasks.openai.reflect", _STAGE),
    "gpu.processor": TaskEntry("tasks.gpu.processor", _JOB),
    "gpu.cluster": TaskEntry("tasks.gpu.cluster", _JOB),
    "gpu.lengths": TaskEntry("tasks.gpu.jobs", _JOB),
    "gpu.sample": TaskEntry("tasks.gpu.jobs", _JOB),
    "gpu.identity": TaskEntry("tasks.gpu.jobs", _JOB),
    "gpu.tokenizer": TaskEntry("tasks.gpu.jobs", _JOB),
    "gpu.rollout": TaskEntry("tasks.guide.work", _JOB),
    "gpu.prompt_lengths": TaskEntry("tasks.guide.work", _JOB),
    "gpu.critique": TaskEntry("tasks.guide.work", _JOB),
    "gpu.propose": TaskEntry("tasks.guide.work", _JOB),
    "gpu.bases": TaskEntry("tasks.route.jobs", _JOB),
    "gpu.train": TaskEntry("tasks.route.jobs", _JOB),
    "gpu.evaluate": TaskEntry("tasks.route.jobs", _JOB),
    "openai.critique": TaskEntry("tasks.guide.work", _JOB),
    "openai.propose": TaskEntry("tasks.guide.work", _JOB),
    "openai.compress": TaskEntry("tasks.collect.collection", _JOB),
    "openai.verdict": TaskEntry("tasks.collect.collection", _JOB),
    "cpu.plot": TaskEntry("tasks.cpu.plots", _JOB),
    "cpu.gather": TaskEntry("tasks.cpu.score", ("run", "plan", "attempt")),
    "cpu.tokenize": TaskEntry("tasks.collect.tokens", _JOB),
    "cpu.pool": TaskEntry("tasks.route.jobs", _JOB),
    "cpu.verify": TaskEntry("tasks.guide.work", _JOB),
}


def queue_of(task: str) -> str:
    """The queue of a task, by its name."""
    return task.partition(".")[0]


def modules_of(queue: str) -> tuple[str, ...]:
    """The modules that a worker of this queue imports."""
    if queue not in QUEUES:
        raise KeyError(queue)
    return tuple(dict.fromkeys(entry.module for task, entry in TASKS.items() if queue_of(task) == queue))


LABEL = "whetstone_label"  # the header of a job's message that holds its label
SHOWN_OF_A_KEY = 24  # characters


def format_label(task: str, arguments: Sequence[Any], label: str = "") -> str:
    """The line for a task's arguments; of a job without a `label` the beginning of its key is shown."""
    if task not in TASKS or len(arguments) != len(TASKS[task].arguments):
        return f"arguments={len(arguments)}"
    values = dict(zip(TASKS[task].arguments, arguments, strict=True))
    shown = {"run": values["run"]}
    if plan := str(values.get("plan", "")):
        shown["generation"] = generation_of(plan)
        shown |= {"child": node_id(plan, values["index"], values["phase"])} if "index" in values else {"plan": plan}
    else:
        shown["job"] = label or str(values["job"])[:SHOWN_OF_A_KEY]
    shown["attempt"] = values["attempt"]
    return " ".join(f"{name}={value}" for name, value in shown.items() if value != "")


def parse_label(line: str) -> dict[str, str]:
    """The parts of a line; none for a line that is not ours."""
    return dict(part.split("=", 1) for part in line.split() if "=" in part) if line.startswith("run=") else {}


def generation_of(node: str) -> str:
    """The number of the generation that a plan or a node of the lineage belongs to, "" for none."""
    found = re.match(r"g(\d+)_", node)
    return found[1] if found else ""
