"""A worker joins a run in progress with nothing but the address and its queue, and leaves it again in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_folder import RunFolder, cache_folder, environment, finish, wait_until

from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.workers import WorkerRegistry
from workers.embedded import farm as control

pytestmark = pytest.mark.long

LONGER = {"POPULATION_SIZE": "6", "TARGET_MAX_NEW_TOKENS": "48", "TRAINING": "0-5"}
JOIN_S = 10.0
GRACE_S = 10.0


class Joined:
    """A gpu worker as on another host: it gets its own cache and the address of the broker."""

    def __init__(self, folder: Path, address: str, **more: str) -> None:
        self.cache, self.log = folder / "cache", folder / "joined.log"
        self.cache.mkdir(parents=True)
        for model in cache_folder().glob("smollm2-*"):
            if model.is_dir() and not model.name.endswith(".part"):
                (self.cache / model.name).symlink_to(model, target_is_directory=True)
        own = {ENVIRONMENT_VARIABLE: address, "WHETSTONE_CACHE": str(self.cache), **more}
        self.started = time.monotonic()
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers", "gpu"],
                env={**environment(), **own}, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def report(self, registry: WorkerRegistry) -> dict[str, object]:
        """Its heartbeat in the store; empty before the first."""
        found = [report for report in registry.workers() if report["pid"] == self.process.pid]
        return found[0] if found else {}

    def answered(self) -> list[str]:
        path = self.cache / "workers" / "logs" / "target_requests.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["sha256"] for line in lines]

    def clear(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def farm_of(run: RunFolder) -> tuple[str, WorkerRegistry]:
    """The address of a run's farm, and what its workers report."""
    address = control.status(run.farm).redis_url
    assert address is not None
    return address, WorkerRegistry(connect(store_url(address)))


def test_a_second_gpu_worker_starts_and_stops_during_a_run(run_folder: RunFolder, tmp_path: Path) -> None:
    # Given a finished run with one gpu worker
    calm, growing = RunFolder(tmp_path / "calm", LONGER), RunFolder(tmp_path / "growing", LONGER)
    for place in (calm, growing):
        place.folder.mkdir()
    done = calm.run()
    assert done.returncode == 0, done.stdout
    # And another at work
    process = growing.start()
    wait_until(lambda: growing.answered("target_requests.jsonl"), "the first answer")
    address, registry = farm_of(growing)
    # When a second one is started with only the address, then it has a task within ten seconds
    joined = Joined(tmp_path / "elsewhere", address)
    try:
        wait_until(lambda: joined.report(registry).get("tasks"), "the second worker to have a task")
        took = time.monotonic() - joined.started
        # And answers, with the clusters of the run, which another worker made
        wait_until(lambda: len(joined.answered()) >= 4, "answers of the second worker")
        assert list((joined.cache / "workers" / "labels").glob("*.npy"))
        # When it is stopped during a task, then it ends in time
        wait_until(lambda: joined.report(registry).get("tasks"), "a task on the second worker")
        asked = time.monotonic()
        joined.process.send_signal(signal.SIGTERM)
        joined.process.wait(60)
        left = time.monotonic() - asked
        assert joined.report(registry) == {}
        done = finish(process)
    finally:
        joined.clear()
    # Then the run ends in the same state, and every answer was computed once
    assert done.returncode == 0, done.stdout
    assert growing.state() == calm.state()
    answered = growing.answered("target_requests.jsonl") + joined.answered()
    assert sorted(answered) == sorted(calm.answered("target_requests.jsonl"))
    print(f"took work after {took:.1f} s, left after {left:.1f} s; {len(joined.answered())} of {len(answered)} answers")
    assert took < JOIN_S
    assert left < GRACE_S
    assert growing.processes() == []
