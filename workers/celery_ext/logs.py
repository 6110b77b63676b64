"""The logs of workers: every line names the task that it is about, also the lines that Celery writes.

A task's own lines are about it, because its thread or process carries the fields from before it begins until after it
has ended.  Celery's lines about a task carry its id, its name and the line that displays its arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from celery import signals

from tasks.common import logs
from tasks.queues import format_label, parse_label


def fields_of_task(name: str, task_id: str, line: str) -> dict[str, str]:
    """The log fields of a task, from the line that displays its arguments (`format_label`)."""
    values = parse_label(line)
    found = {name: values.get(name, "") for name in ("run", "generation")}
    found |= {"child": values.get("child") or values.get("job", ""), "stage": name.partition(".")[2], "task": task_id}
    return {name: value for name, value in found.items() if value}


def add_fields(record: logging.LogRecord) -> bool:
    """A filter that adds the fields of a task to Celery's own lines."""
    data: Any = getattr(record, "data", record.args)
    if isinstance(data, Mapping) and isinstance(data.get("id"), str) and isinstance(data.get("args"), str):
        record.log_fields = fields_of_task(str(data.get("name")), data["id"], data["args"])
    return True


def format_worker_logs() -> None:
    """Give Celery's logs of this process the project's format.  Call it once, before the application starts."""

    @signals.celeryd_init.connect(weak=False)
    def name_worker(sender: str, **_: Any) -> None:
        logs.set_process_fields(worker=sender)

    @signals.after_setup_logger.connect(weak=False)
    @signals.after_setup_task_logger.connect(weak=False)
    def format_handlers(logger: logging.Logger, **_: Any) -> None:
        for handler in logger.handlers:
            logs.set_formatter(handler)
            handler.addFilter(add_fields)

    @signals.task_prerun.connect(weak=False)
    def begin(sender: Any, task_id: str, args: Sequence[Any], **_: Any) -> None:
        logs.set_fields(fields_of_task(sender.name, task_id, format_label(sender.name, args)))

    @signals.task_postrun.connect(weak=False)
    def end(**_: Any) -> None:
        logs.set_fields({})
