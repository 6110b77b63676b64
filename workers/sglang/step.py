"""What a worker of the gpu queue does beside its tasks, as bootsteps of Celery: its target host, and filling it.

The worker takes the next message as soon as no request waits for its turn, so the last answers of one individual run
beside the first of the next.  The number of slots is only the most that it takes.
"""

from __future__ import annotations

import hashlib
import os
import resource
from pathlib import Path
from typing import Any

from celery import bootsteps

from tasks.common.logs import redacted
from tasks.gpu.target import REQUESTS, RequestQueue
from tasks.store.address import redis_url_of
from workers.celery_ext import report
from workers.celery_ext.lease import unacknowledged
from workers.embedded import models
from workers.embedded.farm import FARM_VARIABLE
from workers.processes import rotate_logs
from workers.sglang.host import LocalTargetHost

OPEN_FILES = 65_536  # a connection for each request in flight
PREPARING = 8  # tasks without requests at once: those that have just begun, and those that send none
ROTATE_S = 2.0  # between looks at the size of the server's logs


class TargetHostStep(bootsteps.StartStopStep):
    requires = ("celery.worker.components:Pool",)
    host: LocalTargetHost | None = None

    def start(self, worker: Any) -> None:
        raise_open_files_limit()
        farm = os.environ.get(FARM_VARIABLE)
        folder = Path(farm) if farm else models.cache_folder() / "workers"
        name = worker.hostname.partition("@")[0]
        if farm is None:  # all farms of this host share the folder
            broker = redacted(redis_url_of(os.environ)).encode()
            name = f"{worker.hostname}-{hashlib.sha256(broker).hexdigest()[:6]}"
        self.host = LocalTargetHost(folder, name, dict(os.environ))
        self.host.clear_leftovers()
        worker.app.target_host = self.host  # tasks.gpu.host.host_of
        report.FIELDS["target"] = self.host.describe

    def stop(self, worker: Any) -> None:
        report.FIELDS.pop("target", None)
        if self.host is not None:
            self.host.close()
            self.host = None

    def terminate(self, worker: Any) -> None:
        self.stop(worker)


class FillServer(report.PeriodicStep):
    """Applies `has_room` to the channel of every broker connection, and rotates the logs of the server."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        channel, hub, host = consumer.task_consumer.channel, consumer.hub, consumer.app.target_host
        channel.qos.has_room = lambda: has_room(len(unacknowledged(channel)), REQUESTS)
        REQUESTS.on_room = lambda: hub.call_soon(lambda: None)  # wakes the loop that consumes messages
        self.repeat(consumer, ROTATE_S, lambda: rotate_logs(host.logs))

    def stop(self, consumer: Any) -> None:
        super().stop(consumer)
        REQUESTS.on_room = lambda: None


def has_room(held: int, requests: RequestQueue) -> bool:
    """Whether a worker that holds so many messages should take another one."""
    return requests.waiting == 0 and held - requests.batches < PREPARING


def raise_open_files_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
