"""A task in a worker whose end is always settled: acknowledged, returned to its queue, or left to return by itself.

The pool calls a method of the request when a task has ended.  Where that method fails, for example because the store
refuses writes, Celery logs the error, or in a pool of threads nothing; the message stays with the worker, and its slot
with the message, for ever.  Here the message is given back: its lease ends (`workers/celery_ext/unacked.py`), it
returns to its queue after the visibility timeout, and a result that was recorded is found then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery.utils.log import get_logger
from celery.worker import request
from celery.worker.state import task_ready

from tasks.task import is_of_the_store

logger = get_logger(__name__)


class SettledRequest(request.Request):
    """Celery's request, which gives its message back when its end cannot be recorded."""

    message: Any
    acknowledged: bool

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> None:
        if is_of_the_store(exc_info.exception):  # the store failed, not the task: it is not recorded as failed
            self._give_back(exc_info.exception)
            return
        with self._settled():
            super().on_failure(exc_info, send_failed_event, return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        with self._settled():
            super().on_timeout(soft, timeout)

    @contextmanager
    def _settled(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever it is, nobody but the worker's log would have it
            self._give_back(error)

    def _give_back(self, error: BaseException) -> None:
        is_known = is_of_the_store(error)
        logger.warning(
            "the end of task %s was not recorded, and it is given back: %r", self.id, error, exc_info=not is_known
        )
        task_ready(self)
        if not self.acknowledged:
            self.message.channel.qos.end_lease(self.message.delivery_tag)
            self.acknowledged = True
