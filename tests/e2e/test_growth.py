"""A worker joins a run in progress with nothing but the address and its queue, and leaves it again in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from run_folder import LOGS, RunFolder, environment, finish, wait_until

from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.workers import WorkerRegistry
from workers.embedded import farm as control
from workers.embedded.models import cache_folder

LONGER = {"POPULATION_SIZE": "6", "TARGET_MAX_NEW_TOKENS": "48", "TRAINING": "0-5"}


def answered(cache: Path) -> list[str]:
    path = cache / "workers" / "logs" / LOGS[0]
    return [json.loads(line)["sha256"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.long
def test_a_second_gpu_worker_starts_and_stops_during_a_run(run_folder: RunFolder, tmp_path: Path) -> None:
    # Given a finished run with one gpu worker, and another at work
    done = run_folder.run(**LONGER)
    assert done.returncode == 0, done.stdout
    growing, cache = RunFolder(tmp_path / "growing", LONGER), tmp_path / "cache"
    growing.folder.mkdir()
    process = growing.start()
    wait_until(lambda: growing.answered(LOGS[0]), "the first answer")
    # When a second one is started with only the address, and a cache of its own as on another host
    cache.mkdir()
    for model in cache_folder().glob("smollm2-*"):
        if model.is_dir() and not model.name.endswith(".part"):
            (cache / model.name).symlink_to(model, target_is_directory=True)
    address = control.status(growing.farm).redis_url
    assert address is not None
    own = {ENVIRONMENT_VARIABLE: address, "WHETSTONE_CACHE": str(cache)}
    registry = WorkerRegistry(connect(store_url(address)))
    joined = subprocess.Popen(
        [sys.executable, "-m", "workers", "gpu"], env={**environment(), **own}, start_new_session=True
    )

    def tasks() -> object:
        """Of its heartbeat in the store; None without one."""
        return next((report["tasks"] for report in registry.workers() if report["pid"] == joined.pid), None)

    try:
        # Then it has tasks and answers, with the clusters of the run, which another worker made
        wait_until(lambda: len(answered(cache)) >= 4, "answers of the second worker")
        assert list((cache / "workers" / "labels").glob("*.npy"))
        # When it is stopped during a task, then it ends in order
        wait_until(tasks, "a task on the second worker")
        joined.send_signal(signal.SIGTERM)
        joined.wait(60)
        assert tasks() is None
        # And the run ends in the same state, and every answer was computed once
        done = finish(process)
        assert done.returncode == 0, done.stdout
    finally:
        if joined.poll() is None:
            os.killpg(joined.pid, signal.SIGKILL)
            joined.wait()
        growing.clear()
    assert growing.result() == run_folder.result()
    assert sorted(growing.answered(LOGS[0]) + answered(cache)) == sorted(run_folder.answered(LOGS[0]))
