"""A worker that was asked to go is gone in time, also when its broker is not there to be told.

Celery's heart announces a worker's leaving, and tries for ever to reach a broker that has died: a worker whose farm is
gone would never end.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from celery import signals

SHUTDOWN_S = 30.0  # soft shutdown and the end of a target server, and as much again
EXIT_STATUS = 70  # as sysexits.h has it for an end that was not in order


def set_deadline(**_: Any) -> None:
    """From now on the process has `SHUTDOWN_S` seconds."""
    timer = threading.Timer(SHUTDOWN_S, os._exit, (EXIT_STATUS,))
    timer.daemon = True
    timer.start()


def install() -> None:
    """Set the deadline whenever a worker of this process is asked to shut down, in whatever way."""
    signals.worker_shutting_down.connect(set_deadline, weak=False, dispatch_uid="whetstone-deadline")
