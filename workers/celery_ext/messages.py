"""Messages that a person can read in a monitor: their arguments are told as run, generation and child."""

from __future__ import annotations

from typing import Any

from celery.app.amqp import AMQP

from tasks.labels import show


class ReadableMessages(AMQP):
    """Celery's messages, each with the line of `tasks.labels` in place of its arguments' representation.

    Celery writes that representation wherever a message is made, and forgets one given earlier when a task is tried
    again: so it is made here, for whoever sends.
    """

    def as_task_v2(
        self, task_id: str, name: str, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any
    ) -> Any:
        options["argsrepr"] = show(name, args or ())
        options["kwargsrepr"] = f"{len(kwargs)} more" if kwargs else ""
        return super().as_task_v2(task_id, name, args, kwargs, *rest, **options)
