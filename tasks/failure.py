"""A task that failed for good, of any kind of run: what the worker records and what every list shows."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from tasks.validation import Moment, parse_json

SHORTEST_PREFIX = 6  # characters of a task id that may stand for the whole


@dataclass(frozen=True)
class Failure:
    """One failed task.

    `record` is the plan, or "jobs" for a task outside a plan; `name` finds the task in its record (the index of a
    candidate, the key of a job).  `node` is what a person calls it: the individual's id in the tree, or the label of
    a job.  `task` is Celery's id, `tries` counts all failures of this stage, `at` is in seconds since 1970.
    `attempt` is that of the message; a failure of an earlier attempt at the record is out of date.  `prompt` is the
    file of the last call in reflector_prompts, or "".
    """

    run: str
    record: str
    name: str
    node: str
    stage: str
    error: str
    task: str
    tries: int
    at: Moment
    attempt: int
    prompt: str = ""

    def is_called(self, name: str) -> bool:
        """Whether `name` is the node, the task's id, or the beginning of the id."""
        return name in (self.node, self.task) or (len(name) >= SHORTEST_PREFIX and self.task.startswith(name))

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Failure:
        return parse_json(cls, text)
