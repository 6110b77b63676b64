"""Who works on a run: the second process is refused, a dead one is replaced at once, one elsewhere is watched."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from farm_bench import until

from orchestrator.console import Terminated
from orchestrator.farm.connection import FarmConnection, make_sender
from orchestrator.farm.work import Request, Scheduler
from orchestrator.farm.workers import count_messages
from orchestrator.runs import session
from orchestrator.runs.folder import OutputFolder, RunInUse
from orchestrator.runs.lifecycle import delete_run
from orchestrator.runs.session import open_session, owned
from tasks.common.process import identify
from tasks.records import JobSpec
from tasks.store.address import queues_url
from tasks.store.client import RunTaken, connect
from tasks.store.keys import CANCELLED
from tasks.store.ownership import Owner, RunLease, read_lease
from tasks.store.store import Store

RUN = "run"


@pytest.fixture
def farm(valkey_url: str, store: Store) -> Iterator[FarmConnection]:
    with make_sender(valkey_url) as app:
        yield FarmConnection(app, connect(queues_url(valkey_url)), store, rules=False, check=lambda: None)


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "RENEW_S", 0.05)
    monkeypatch.setattr(session, "LEASE_S", 0.6)


def hold(farm: FarmConnection, **changes: object) -> RunLease:
    """Take the run's lease for a process that differs from this one by `changes`."""
    owner = dataclasses.replace(Owner.here("/outputs/run"), **changes)  # type: ignore[arg-type]
    lease = RunLease(farm.store.redis, RUN, owner)
    assert lease.take()
    return lease


def test_a_second_process_is_told_who_works_on_the_run(farm: FarmConnection, tmp_path: Path) -> None:
    with owned(farm, RUN, tmp_path, pytest.fail) as owner:
        owner.store.put_metadata(RUN, "status", "{}")
        for attempt in (lambda: owned(farm, RUN, tmp_path, pytest.fail).__enter__(), lambda: delete_run(farm, RUN)):
            with pytest.raises(RunInUse, match=r"in use: process \d+ on host .* \(since .*, folder .*\) works on"):
                attempt()
        assert farm.store.metadata(RUN, "status") == "{}"
    # When the first one has ended, then there is no owner, and the run can be deleted with all that it left
    assert read_lease(farm.store.redis, RUN) is None
    delete_run(farm, RUN)
    assert farm.store.redis.keys("*") == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Terminated()])
def test_a_session_that_is_stopped_leaves_no_message_and_the_next_one_sends_it_again(
    farm: FarmConnection, tmp_path: Path, error: BaseException
) -> None:
    request = Request("answer:a", JobSpec("cpu.tokenize", "a", {}))

    def start(error: BaseException) -> None:
        with open_session(OutputFolder(tmp_path), "collect", nullcontext(farm), "", unit="", job_s=60) as opened:
            assert opened.farm.store.metadata(opened.run_id, CANCELLED) is None
            jobs = Scheduler(opened.dispatcher)
            jobs.submit(request)
            jobs.poll()
            assert count_messages(farm.broker, opened.run_id) == 1
            raise error

    for _ in range(2):
        with pytest.raises(type(error)):
            start(error)
        run_id = OutputFolder(tmp_path).run_id("collect")
        # What a worker has of it ends there, and counts as no failure
        assert (count_messages(farm.broker, run_id), farm.store.metadata(run_id, CANCELLED)) == (0, "1")
        assert farm.store.failed_tasks(run_id) == []


def test_a_process_that_was_killed_is_replaced_at_once(farm: FarmConnection, tmp_path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as killed:
        process = identify(killed.pid)
        killed.kill()
    lease = hold(farm, pid=process.pid, started=process.started)
    with owned(farm, RUN, tmp_path, pytest.fail) as owner:
        assert owner.store.owner != lease.owner.to_json()


def test_a_process_on_another_host_keeps_the_run_as_long_as_it_renews_its_lease(
    farm: FarmConnection, tmp_path: Path
) -> None:
    lease, lines = hold(farm, host="far", boot="another"), list[str]()
    with pytest.raises(RunInUse, match="on host far"), owned(farm, RUN, tmp_path, lambda waiting: lease.renew()):
        pass
    with owned(farm, RUN, tmp_path, lines.append):
        pass
    assert len(lines) == 1 and "on host far" in lines[0] and "is not visible from here; waiting 0.6 s" in lines[0]


def test_a_process_that_was_suspended_finds_that_it_was_replaced(farm: FarmConnection, tmp_path: Path) -> None:
    # Given a process that owns a run, and another that has taken the run over meanwhile
    with (
        pytest.raises(RunTaken, match=r"taken over by process \d+ on host"),
        owned(farm, RUN, tmp_path, pytest.fail) as owner,
    ):
        held = read_lease(farm.store.redis, RUN)
        assert RunLease(farm.store.redis, RUN, Owner.here("/outputs/run")).take(replaced=held)
        # Then its writes are refused, and so is its next look at the farm
        with pytest.raises(RunTaken):
            owner.store.put_metadata(RUN, "status", "old")
        until(owner.check)
    # And the lease of the other stays
    assert read_lease(farm.store.redis, RUN) is not None
    assert farm.store.metadata(RUN, "status") is None
