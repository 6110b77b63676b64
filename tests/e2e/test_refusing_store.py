"""A store that refuses in the middle of a run: the run waits and goes on, or parks with the reason; nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis
from run_folder import RunFolder, finish, orchestrator, process_of, wait_until

from tasks.store.client import WAIT_VARIABLE
from workers.embedded.valkey import socket_path

pytestmark = pytest.mark.long


@contextmanager
def full_memory(run: RunFolder) -> Iterator[None]:
    with redis.Redis(unix_socket_path=str(socket_path(run.farm))) as client:
        client.config_set("maxmemory", "1")
        yield
        client.config_set("maxmemory", "0")


def test_a_run_waits_for_a_store_that_refuses_and_says_why(run_folder: RunFolder, reference_run: RunFolder) -> None:
    process = run_folder.start()
    wait_until(lambda: run_folder.answers() >= 3 or process.poll() is not None, "answers")
    assert process.stdout is not None
    with full_memory(run_folder):
        assert any("the store refuses: OOM" in line for line in process.stdout)
        assert process_of(run_folder, "supervisor") is not None
    done = finish(process)
    assert done.returncode == 0, done.stdout
    assert run_folder.state() == reference_run.state()
    assert not run_folder.repeated(twice=reference_run.repeated())


def test_a_store_that_refuses_for_too_long_parks_the_run_and_retry_goes_on(
    run_folder: RunFolder, reference_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, "8")
    process = run_folder.start()
    wait_until(lambda: run_folder.answers() >= 3 or process.poll() is not None, "answers")
    with redis.Redis(unix_socket_path=str(socket_path(run_folder.farm))) as client:
        client.config_set("maxmemory", "1")
    parked = finish(process)
    assert parked.returncode == 3, parked.stdout
    assert "refuses: OOM" in parked.stdout
    assert f"go on with: orchestrator retry {run_folder.output}" in parked.stdout
    assert "OOM" in orchestrator("status", str(run_folder.output)).stdout
    done = orchestrator("retry", str(run_folder.output))
    assert done.returncode == 0, done.stdout
    assert run_folder.state() == reference_run.state()
    assert not run_folder.repeated(twice=reference_run.repeated())
