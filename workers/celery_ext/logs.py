"""The logs of workers: every line says which task it is about, also those that Celery writes itself.

A task's own lines are about it because its thread or process is, from before it begins until after it has ended.  The
worker's lines about tasks that it received name them, and what a name stands for was in the line of its receipt.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from celery import signals
from celery.apps import worker

from tasks import logs
from tasks.labels import show

STANDARD_ERROR = 2  # the descriptor: Celery puts a log in the place of sys.stderr
REMEMBERED = 1000  # tasks that were received


def fields_of_task(name: str, task_id: str, line: str) -> dict[str, str]:
    """What a task is about, from the line that shows its arguments (see `tasks.labels`)."""
    values = dict(part.split("=", 1) for part in line.split() if "=" in part) if line.startswith("run=") else {}
    fields = {"run": values.get("run", ""), "generation": values.get("generation", "")}
    fields |= {"child": _node(values), "stage": name.partition(".")[2] or name, "task": task_id}
    return {name: value for name, value in fields.items() if value}


def _node(values: Mapping[str, str]) -> str:
    """The individual's id in the tree, as `tasks.plan.Plan.node` has it."""
    generation = values.get("generation", "")
    if "child" in values:
        return f"g{generation}_child{values['child']}_{values.get('phase', 'pre')}"
    if "individual" in values:
        return f"g{generation}_pop{values['individual']}"
    return f"final{values['final']}" if "final" in values else values.get("example", "")


class Received(logging.Filter):
    """Gives Celery's own lines what they are about, by the id of the task that they name."""

    def __init__(self) -> None:
        super().__init__()
        self._known: OrderedDict[str, dict[str, str]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        told = getattr(record, "data", None)
        if isinstance(told, dict) and isinstance(told.get("id"), str) and isinstance(told.get("args"), str):
            self._remember(told["id"], fields_of_task(str(told.get("name")), told["id"], told["args"]))
        named = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
        for value in named:
            if isinstance(value, str) and value in self._known:
                record.about = self._known[value]
        return True

    def _remember(self, task_id: str, fields: dict[str, str]) -> None:
        if fields.get("run") or task_id not in self._known:
            self._known[task_id] = fields
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


def say(message: str, f: object = None) -> None:
    """What Celery says of its shutdown, past all logs since it does so in a signal handler: a line like the others."""
    record = logging.LogRecord("celery.apps.worker", logging.INFO, "", 0, message.strip(), None, None)
    os.write(STANDARD_ERROR, (logs.JsonLines().format(record) + "\n").encode())


def connect() -> None:
    """Have Celery's logs of this process written like ours.  Called once, before the application starts."""
    received = Received()
    if logs.are_json():
        worker.safe_say = say  # type: ignore[attr-defined]  # not in the stubs; a test watches over it

    @signals.celeryd_init.connect(weak=False)
    def name_worker(sender: str, **_: Any) -> None:
        logs.always(worker=sender)

    @signals.after_setup_logger.connect(weak=False)
    @signals.after_setup_task_logger.connect(weak=False)
    def dress(logger: logging.Logger, **_: Any) -> None:
        logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each question of each individual
        for handler in logger.handlers:
            logs.dress(handler)
            handler.addFilter(received)

    @signals.task_prerun.connect(weak=False)
    def begin(sender: Any, task_id: str, args: Sequence[Any], **_: Any) -> None:
        logs.now_about(fields_of_task(sender.name, task_id, show(sender.name, args)))

    @signals.task_postrun.connect(weak=False)
    def end(**_: Any) -> None:
        logs.now_about({})
