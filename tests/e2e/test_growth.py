"""A worker joins a run in progress with nothing but the address and its queue, and leaves it again in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_folder import LOGS, RunFolder, cache_folder, environment, finish, wait_until

from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.workers import WorkerRegistry
from workers.embedded import farm as control

pytestmark = pytest.mark.long
LONGER = {"POPULATION_SIZE": "6", "TARGET_MAX_NEW_TOKENS": "48", "TRAINING": "0-5"}


class Joined:
    """A gpu worker as on another host: it gets its own cache and the address of the broker."""

    def __init__(self, folder: Path, address: str) -> None:
        self.cache, self.registry = folder / "cache", WorkerRegistry(connect(store_url(address)))
        self.cache.mkdir(parents=True)
        for model in cache_folder().glob("smollm2-*"):
            if model.is_dir() and not model.name.endswith(".part"):
                (self.cache / model.name).symlink_to(model, target_is_directory=True)
        own = {ENVIRONMENT_VARIABLE: address, "WHETSTONE_CACHE": str(self.cache)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "workers", "gpu"], env={**environment(), **own}, start_new_session=True
        )

    def report(self) -> dict[str, object]:
        """Its heartbeat in the store; empty before the first."""
        found = [report for report in self.registry.workers() if report["pid"] == self.process.pid]
        return found[0] if found else {}

    def answered(self) -> list[str]:
        path = self.cache / "workers" / "logs" / LOGS[0]
        return [json.loads(line)["sha256"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[RunFolder]:
    folder = RunFolder(tmp_path / "growing", LONGER)
    folder.folder.mkdir()
    yield folder
    folder.clear()


def test_a_second_gpu_worker_starts_and_stops_during_a_run(
    run_folder: RunFolder, growing: RunFolder, tmp_path: Path
) -> None:
    # Given a finished run with one gpu worker, and another at work
    done = run_folder.run(**LONGER)
    assert done.returncode == 0, done.stdout
    process = growing.start()
    wait_until(lambda: growing.answered(LOGS[0]), "the first answer")
    # When a second one is started with only the address
    address = control.status(growing.farm).redis_url
    assert address is not None
    joined = Joined(tmp_path / "elsewhere", address)
    try:
        # Then it has tasks and answers, with the clusters of the run, which another worker made
        wait_until(lambda: len(joined.answered()) >= 4, "answers of the second worker")
        assert list((joined.cache / "workers" / "labels").glob("*.npy"))
        # When it is stopped during a task, then it ends in order
        wait_until(lambda: joined.report().get("tasks"), "a task on the second worker")
        joined.process.send_signal(signal.SIGTERM)
        joined.process.wait(60)
        assert joined.report() == {}
    finally:
        if joined.process.poll() is None:
            os.killpg(joined.process.pid, signal.SIGKILL)
            joined.process.wait()
    # And the run ends in the same state, and every answer was computed once
    done = finish(process)
    assert done.returncode == 0, done.stdout
    assert growing.result() == run_folder.result()
    answered = growing.answered(LOGS[0]) + joined.answered()
    assert sorted(answered) == sorted(run_folder.answered(LOGS[0]))
    assert growing.processes() == []
