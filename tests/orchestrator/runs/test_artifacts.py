"""Files that workers make for the output folder; nothing else works on this farm but the test."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from simulated_run import RUN, Driver

from orchestrator.farm.work import Scheduler
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.jobs import ArtifactRequests
from tasks.records import Failure

NAME = "processor_best.py"


def artifacts_of(driver: Driver, folder: Path, **limits: float) -> ArtifactRequests:
    return ArtifactRequests(Scheduler(driver.dispatcher(**limits)), OutputFolder(folder))


def keys_of(driver: Driver) -> list[str]:
    """The keys of the jobs that have been requested."""
    fields = [f.decode() for f in driver.store.redis.hkeys(f"whetstone:run:{RUN.id}:plan:jobs")]
    return [field for field in fields if field.startswith("file:")]


def key_of(driver: Driver) -> str:
    """The key of the one job that has been requested."""
    [key] = keys_of(driver)
    return key


def test_a_file_that_is_ready_is_written(alone: Driver, tmp_path: Path) -> None:
    artifacts = artifacts_of(alone, tmp_path)
    artifacts.request_processor(NAME, [0.5], "")
    artifacts.save_ready()
    assert list(tmp_path.iterdir()) == []
    alone.store.put_file(RUN.id, key_of(alone), b"made")
    alone.store.put_shared(RUN.id, key_of(alone), {"file": NAME})
    artifacts.wait(10)
    assert (tmp_path / NAME).read_bytes() == b"made"


def test_a_file_that_cannot_be_made_is_a_warning_and_no_failure_of_the_run(
    alone: Driver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    artifacts = artifacts_of(alone, tmp_path)
    artifacts.request_processor(NAME, [0.5], "")
    artifacts.save_ready()
    failure = Failure(RUN.id, "jobs", key_of(alone), NAME, "processor", "ValueError: no", "t", 1, time.time(), 1)
    alone.store.put_failure(failure)
    artifacts.wait(10)
    assert "processor_best.py could not be made: ValueError: no" in caplog.text
    assert alone.store.failures(RUN.id) == []
