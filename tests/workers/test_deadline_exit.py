"""The deadline itself, in a process that would otherwise stay."""

from __future__ import annotations

import subprocess
import sys

from workers.celery_ext.threads import EXIT_STATUS

STUCK = """
import threading
from celery import signals
from workers.celery_ext import threads as deadline
deadline.SHUTDOWN_S = 0.2
deadline.install()
signals.worker_shutting_down.send(sender="test", sig="SIGTERM", how="Warm", exitcode=0)
threading.Event().wait()
"""


def test_a_process_that_is_stuck_in_its_shutdown_ends() -> None:
    assert subprocess.run([sys.executable, "-c", STUCK], timeout=30, check=False).returncode == EXIT_STATUS
