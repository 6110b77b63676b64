"""`orchestrator farm gc` shows what it would remove, removes it when told to, and refuses what is at work."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from orchestrator.cli import main
from tasks.store import keys
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.ownership import Owner, RunLease
from tasks.store.store import Store

DAY_S = 24 * 3600
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def gc(valkey_url: str, store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command on a store with a finished and a parked run; its exit status and output."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)
    for run, state in (("ended", "finished"), ("waits", "parked")):
        store.set_requirements(run, "code", "model")
        store.put_metadata(run, keys.STATUS, json.dumps({"state": state, "updated": time.time() - 31 * DAY_S}))

    def run(*arguments: str) -> tuple[int, str]:
        status, printed = main(["farm", "gc", *arguments]), capsys.readouterr()
        return status, printed.out + printed.err

    return run


def test_it_shows_what_it_would_remove_and_removes_it_when_told_to(gc: Run, store: Store) -> None:
    status, printed = gc()
    assert status == 0 and "run ended, finished since" in printed and "run waits, parked since" in printed
    assert store.run_ids() == ["ended", "waits"]

    status, printed = gc("--remove", "--json")
    assert (status, json.loads(printed)["removed"]) == (0, {"runs": 1, "results": 0})
    assert store.run_ids() == ["waits"]


def test_a_run_without_a_folder_is_removed_by_its_id(gc: Run, store: Store) -> None:
    status, printed = gc("--run", "waits", "--json")
    assert status == 0 and json.loads(printed)["removed"] is None and "waits" in store.run_ids()

    assert gc("--run", "waits", "--days", "40", "--remove")[0] == 0
    assert store.run_ids() == ["ended"]


def test_a_run_that_is_at_work_or_unknown_is_refused_and_nothing_is_removed(gc: Run, store: Store) -> None:
    assert RunLease(store.redis, "waits", Owner.here("outputs/waits")).take()
    for run, reason in (("waits", "it is running"), ("unknown", "no such run")):
        status, printed = gc("--run", run, "--remove")
        assert status == 1 and reason in printed
    assert store.run_ids() == ["ended", "waits"]
