"""The start and stop of a gpu worker's target host, as a bootstep of Celery's worker."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

from celery import bootsteps

from tasks.gpu import host as installed
from workers.celery_ext import heartbeat
from workers.embedded import models
from workers.embedded.farm import FARM_VARIABLE
from workers.processes import LogRotation
from workers.sglang.host import LocalTargetHost

OPEN_FILES = 65_536  # a connection for each request in flight


class TargetHostStep(bootsteps.StartStopStep):
    """Gives a worker of the gpu queue its target host, and stops the server when the worker stops."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **options: Any) -> None:
        self.host: LocalTargetHost | None = None
        self.rotation: LogRotation | None = None
        super().__init__(worker, **options)

    def start(self, worker: Any) -> None:
        raise_open_files_limit()
        farm = os.environ.get(FARM_VARIABLE)
        folder = Path(farm) if farm else models.cache_folder() / "workers"
        name = worker.hostname if farm is None else worker.hostname.partition("@")[0]
        self.host = LocalTargetHost(folder, name, dict(os.environ))
        self.host.clear_leftovers()
        self.rotation = LogRotation(self.host.logs)
        self.rotation.start()
        installed.install(self.host)
        heartbeat.register_field("target", self.host.describe)

    def stop(self, worker: Any) -> None:
        heartbeat.register_field("target", None)
        installed.install(None)
        if self.host is not None:
            self.host.close()
            self.host = None
        if self.rotation is not None:
            self.rotation.stop()
            self.rotation = None

    def terminate(self, worker: Any) -> None:
        self.stop(worker)


def raise_open_files_limit() -> None:
    """Allow as many open files as the machine permits: eight individuals at once are a thousand connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
