"""Who works on a run: the second process is refused, a dead one is replaced at once, one elsewhere is watched."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.producer import make_sender
from orchestrator.output import OutputFolder, RunInUse
from orchestrator.runs import ownership
from orchestrator.runs.lifecycle import delete_run
from orchestrator.runs.ownership import own_run, owned
from tasks.process_identity import identify
from tasks.store.address import queues_url
from tasks.store.client import connect
from tasks.store.fence import RunTaken
from tasks.store.run_lease import Owner, RunLease, read_lease
from tasks.store.store import Store

RUN = "run"


@pytest.fixture
def farm(valkey_url: str, store: Store) -> Iterator[FarmConnection]:
    with make_sender(valkey_url) as app:
        yield FarmConnection(app, connect(queues_url(valkey_url)), store, rules=False, check=lambda: None)


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "RENEW_S", 0.05)
    monkeypatch.setattr(ownership, "LEASE_S", 0.6)


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


def test_a_process_that_was_killed_is_replaced_at_once(farm: FarmConnection, tmp_path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as killed:
        process = identify(killed.pid)
        killed.kill()
    assert process is not None
    lease = hold(farm, pid=process.pid, started=process.started)
    with owned(farm, RUN, tmp_path, pytest.fail) as owner:
        assert owner.store.fence.number == lease.number + 1


def test_a_process_on_another_host_is_replaced_when_it_no_longer_renews(farm: FarmConnection, tmp_path: Path) -> None:
    lines: list[str] = []
    hold(farm, host="far", boot="another")
    with owned(farm, RUN, tmp_path, lines.append):
        pass
    assert len(lines) == 1 and "on host far" in lines[0] and "is not visible from here; waiting 0.6 s" in lines[0]


def test_a_process_on_another_host_that_renews_its_lease_keeps_the_run(farm: FarmConnection, tmp_path: Path) -> None:
    lease, stopped = hold(farm, host="far", boot="another"), threading.Event()

    def renew() -> None:
        while not stopped.wait(0.05):
            lease.renew()

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        with pytest.raises(RunInUse, match="on host far"), owned(farm, RUN, tmp_path, lambda line: None):
            pass
    finally:
        stopped.set()
        thread.join()


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
        while True:
            owner.check()
    # And the lease of the other stays
    assert read_lease(farm.store.redis, RUN) is not None
    assert farm.store.metadata(RUN, "status") is None


def test_a_process_whose_folder_was_moved_stops(farm: FarmConnection, tmp_path: Path) -> None:
    # Given a process that works on a run
    output = OutputFolder(tmp_path / "output")
    run_id = output.run_id("evolve")
    with pytest.raises(RunTaken, match="is no longer at"), own_run(farm, output, run_id, pytest.fail) as (on, _):
        on.check()
        # When its folder is moved, and another run begins where it was, then it writes nothing into that one's folder
        output.path.rename(tmp_path / "moved")
        with pytest.raises(RunTaken):
            on.check()
        OutputFolder(output.path).run_id("evolve")
        on.check()
    # And the run goes on from its new place
    moved = OutputFolder(tmp_path / "moved")
    with own_run(farm, moved, moved.run_id("evolve"), pytest.fail) as (_, own):
        assert own == run_id


def test_a_copy_whose_original_was_moved_is_known_by_the_store(farm: FarmConnection, tmp_path: Path) -> None:
    # Given a copy and an original that was moved since, and the copy goes on first
    original = OutputFolder(tmp_path / "original")
    run_id = original.run_id("evolve")
    shutil.copytree(original.path, tmp_path / "copy")
    original.path.rename(tmp_path / "moved")
    copy, moved, lines = OutputFolder(tmp_path / "copy"), OutputFolder(tmp_path / "moved"), list[str]()
    with own_run(farm, copy, copy.run_id("evolve"), lines.append) as (_, first):
        assert first == run_id
        # When the other goes on, then it is a run of its own
        with own_run(farm, moved, moved.run_id("evolve"), lines.append) as (_, second):
            assert second != run_id and second.startswith("moved-")
    assert lines == [f"{moved.path} is a copy of {copy.path}: it goes on as a run of its own, {second}"]
    assert moved.run_id("evolve") == second
