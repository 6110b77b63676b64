"""A pool of threads that a cold shutdown does not wait for.

Celery's own waits for every running task, whatever the shutdown, and so a worker whose task waits for a server could
only be killed, with its messages out of sight until the visibility timeout.  Here a cold shutdown leaves the threads
behind and the consumer gives their messages back; `python -m workers` then ends the process.  A warm shutdown waits.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery.concurrency.thread import TaskPool
from celery.worker import state


class ThreadPool(TaskPool):
    """Used as `--pool custom` with CELERY_CUSTOM_WORKER_POOL="workers.threads:ThreadPool"."""

    executor: ThreadPoolExecutor

    def on_stop(self) -> None:
        self.executor.shutdown(wait=not state.should_terminate, cancel_futures=True)

    def terminate_job(self, pid: int, signal: Any = None) -> None:
        """A thread cannot be ended: it is left behind."""
