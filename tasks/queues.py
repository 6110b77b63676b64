"""The queues, and every task that goes to them: the module that defines it and the names of its arguments.

A task's name begins with its queue ("gpu.answer"), and Celery routes it by that alone.  A new job is its module and
one line of `TASKS`; a new stage is its module and one line of `STAGES` in `tasks/plan.py`; a new export is its module
and one line of `EXPORTS` in `tasks/exports.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from tasks.exports import EXPORTS
from tasks.plan import STAGES, StageName

QueueName = Literal["gpu", "openai", "cpu"]
QUEUES: tuple[QueueName, ...] = get_args(QueueName)


class TaskEntry(NamedTuple):
    """`module` defines the task; `arguments` are the names of its parameters, in their order."""

    module: str
    arguments: tuple[str, ...]


_STAGE = ("run", "plan", "index", "phase", "attempt")
_JOB = ("run", "job", "attempt")

STAGE_TASKS: Mapping[StageName, str] = {entry.name: f"{entry.queue}.{entry.name}" for entry in STAGES}
"""The task of each stage of a plan."""

TASKS: Mapping[str, TaskEntry] = {
    **{task: TaskEntry(f"tasks.{task}", _STAGE) for task in STAGE_TASKS.values()},
    **{export.task: TaskEntry(f"tasks.{export.task}", _JOB) for export in EXPORTS},
    "gpu.cluster": TaskEntry("tasks.gpu.cluster", _JOB),
    "gpu.lengths": TaskEntry("tasks.gpu.lengths", _JOB),
    "gpu.sample": TaskEntry("tasks.gpu.sample", _JOB),
    "gpu.identity": TaskEntry("tasks.gpu.identity", _JOB),
    "gpu.tokenizer": TaskEntry("tasks.gpu.sample", _JOB),
    "gpu.rollout": TaskEntry("tasks.gpu.rollout", _JOB),
    "gpu.prompt_lengths": TaskEntry("tasks.gpu.rollout", _JOB),
    "gpu.critique": TaskEntry("tasks.gpu.rollout", _JOB),
    "gpu.propose": TaskEntry("tasks.gpu.rollout", _JOB),
    "gpu.bases": TaskEntry("tasks.gpu.training.start", _JOB),
    "gpu.train": TaskEntry("tasks.gpu.training.start", _JOB),
    "gpu.evaluate": TaskEntry("tasks.gpu.training.start", _JOB),
    "openai.critique": TaskEntry("tasks.openai.critique", _JOB),
    "openai.propose": TaskEntry("tasks.openai.critique", _JOB),
    "openai.compress": TaskEntry("tasks.openai.compress", _JOB),
    "openai.verdict": TaskEntry("tasks.openai.judge", _JOB),
    "openai.describe": TaskEntry("tasks.openai.describe", _JOB),
    "cpu.plot": TaskEntry("tasks.cpu.plot", _JOB),
    "cpu.gather": TaskEntry("tasks.cpu.score", ("run", "plan", "attempt")),
    "cpu.tokenize": TaskEntry("tasks.cpu.tokenize", _JOB),
    "cpu.pool": TaskEntry("tasks.cpu.pool", _JOB),
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
