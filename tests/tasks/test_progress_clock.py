"""The clock of progress is one for a worker and the processes of its pool."""

import os
import time

from tasks.progress import ProgressClock


def test_progress_in_a_forked_process_is_seen_by_its_parent() -> None:
    clock = ProgressClock()
    before = clock.at
    child = os.fork()
    if child == 0:
        clock.note()
        os._exit(0)
    os.waitpid(child, 0)
    assert before < clock.at <= time.monotonic()
