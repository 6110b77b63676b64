"""The logs of workers: every line names the task that it is about, also the lines that Celery writes.

A task's own lines are about it, because its thread or process carries the fields from before it begins until after it
has ended.  Celery's lines about a task carry its id only; the "received" line maps the id to its run.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from celery import signals
from celery.apps import worker

from tasks.common import logs
from tasks.queues import format_label, parse_label

STANDARD_ERROR = 2  # the descriptor: Celery replaces sys.stderr by a log
MAX_TASKS = 1000  # received tasks whose fields are kept


def fields_of_task(name: str, task_id: str, line: str) -> dict[str, str]:
    """The log fields of a task, from the line that displays its arguments (`format_label`)."""
    values = parse_label(line)
    found = {name: values.get(name, "") for name in ("run", "generation")}
    found |= {"child": values.get("child") or values.get("job", ""), "stage": name.partition(".")[2], "task": task_id}
    return {name: value for name, value in found.items() if value}


class TaskFieldsFilter(logging.Filter):
    """Adds the fields of a task to Celery's own lines, by the task id in them."""

    def __init__(self) -> None:
        super().__init__()
        self._known: OrderedDict[str, dict[str, str]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        data = getattr(record, "data", None)
        if isinstance(data, dict) and isinstance(data.get("id"), str) and isinstance(data.get("args"), str):
            found = fields_of_task(str(data.get("name")), data["id"], data["args"])
            if found.get("run") or data["id"] not in self._known:
                self._known[data["id"]] = found
            if len(self._known) > MAX_TASKS:
                self._known.popitem(last=False)
        arguments = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
        for value in arguments:
            if isinstance(value, str) and value in self._known:
                record.log_fields = self._known[value]
        return True


def format_worker_logs() -> None:
    """Give Celery's logs of this process the project's format.  Call it once, before the application starts."""
    add_fields = TaskFieldsFilter()

    def write_shutdown_line(message: str, f: object = None) -> None:
        # In a signal handler, where no log may be used.
        record = logging.LogRecord("celery.apps.worker", logging.INFO, "", 0, message.strip(), None, None)
        os.write(STANDARD_ERROR, (logs.JsonLines().format(record) + "\n").encode())

    if logs.is_json_format():
        worker.safe_say = write_shutdown_line  # type: ignore[attr-defined]  # not in the stubs; a test covers it

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
