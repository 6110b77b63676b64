"""How a worker of each queue is started: its pool, its command and its environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal

from tasks.queues import QueueName

QUEUE_VARIABLE = "WHETSTONE_QUEUE"
MODULES_VARIABLE = "WHETSTONE_MODULES"  # modules in place of the queue's, separated by commas

# Tasks of the gpu and openai queues only wait for a server: threads.  Those of the cpu queue compute: processes.
POOLS: Mapping[QueueName, Literal["threads", "prefork"]] = {"gpu": "threads", "openai": "threads", "cpu": "prefork"}

# Threads of a parallel loop that spin starve those that they wait for as soon as another process needs a core.  Threads
# that sleep at once double the time of a step of the embedded target.  So, where OpenMP is gcc's, they spin for a few
# microseconds and then sleep.
OPENMP_ENV = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "2000"}


def worker_command(queue: QueueName, name: str, concurrency: int, log_level: str = "INFO") -> list[str]:
    """The command line of one worker process; `name` is unique among the workers of one broker."""
    options = ["--name", name, "--concurrency", str(concurrency), "--log-level", log_level]
    return [sys.executable, "-m", "workers", queue, *options]


def worker_environment(queue: QueueName) -> dict[str, str]:
    """What a worker sets in its own environment before it imports anything of Celery."""
    return {
        QUEUE_VARIABLE: queue,
        "CELERY_CUSTOM_WORKER_POOL": "workers.celery_ext.threads:ThreadPool",
        "REMAP_SIGTERM": "SIGQUIT",  # SIGTERM is a soft shutdown: tasks that do not end in time are returned
        "TOKENIZERS_PARALLELISM": "false",
        **{name: os.environ.get(name, value) for name, value in OPENMP_ENV.items()},
    }
