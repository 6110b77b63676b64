"""`orchestrator farm` and `doctor`: looking at a farm, telling it something, and removing what it no longer needs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from farm_bench import Bench, until

from orchestrator.cli import main
from tasks.store import keys
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.ownership import Owner, RunLease
from tasks.store.store import Store
from tasks.store.workers import code_version

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def orchestrator(simulated_farm: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command on the simulated farm; its exit status, and what it said."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, simulated_farm.url)

    def run(*arguments: str) -> tuple[int, str]:
        status, said = main(arguments), capsys.readouterr()
        return status, said.out + said.err

    return run


@pytest.fixture
def workers(orchestrator: Run) -> Callable[[], dict[str, dict[str, object]]]:
    def look() -> dict[str, dict[str, object]]:
        status, said = orchestrator("farm", "workers", "--json")
        assert status == 0
        return {worker["worker"].partition("@")[0]: worker for worker in json.loads(said)["workers"]}

    return look


def test_workers_are_listed_with_what_they_are(
    orchestrator: Run, workers: Callable[[], dict[str, dict[str, object]]], simulated_farm: Bench
) -> None:
    found = workers()
    assert {name: (w["queue"], w["state"], w["slots"]) for name, w in found.items()} == {
        "cpu": ("cpu", "ready", 2),
        "gpu": ("gpu", "ready", 2),
        "openai": ("openai", "ready", 2),
    }
    assert {w["pid"] for w in found.values()} == {worker.pid for worker in simulated_farm.workers}
    assert orchestrator("farm", "workers")[1].count(code_version()) == 3


def test_a_queue_is_paused_and_resumed(orchestrator: Run, workers: Callable[[], dict[str, dict[str, object]]]) -> None:
    status, said = orchestrator("farm", "workers", "--pause", "openai")
    assert (status, said.split("@")[0], said.rpartition(" ")[2]) == (0, "openai", "paused\n")
    assert workers()["openai"]["state"] == "paused"
    # The doctor sees it, and says how to mend it
    status, said = orchestrator("doctor")
    assert status == 1
    assert "orchestrator farm workers --resume openai" in said
    assert orchestrator("farm", "workers", "--resume", "openai")[0] == 0
    assert workers()["openai"]["state"] == "ready"
    assert orchestrator("farm", "workers", "--pause", "gpu7")[0] == 1
    assert orchestrator("farm", "workers", "--resume", "cpu")[0] == 1


def test_the_doctor_looks_at_everything(orchestrator: Run) -> None:
    status, said = orchestrator("doctor", "--json")
    findings = json.loads(said)
    by_check = {finding["check"]: finding for finding in findings}
    wanted = ["disk here", "broker", "kept data", "memory", "clock", "code"]
    assert set(wanted) | {f"workers of {queue}" for queue in ("gpu", "openai", "cpu")} <= set(by_check)
    wrong = [finding for finding in findings if not finding["ok"]]
    assert [finding["check"].partition("@")[0] for finding in wrong] == ["key of openai"]  # this farm has none
    assert all(finding["hint"] for finding in wrong)
    assert status == 1


def test_the_doctor_says_when_there_is_no_broker(orchestrator: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "unix:///nowhere/valkey.sock?db=0")
    status, said = orchestrator("doctor")
    assert status == 1
    assert "WRONG  broker" in said
    assert orchestrator("farm", "workers")[0] == 2


@pytest.mark.long
def test_a_silent_worker_is_told_from_one_that_answers(
    workers: Callable[[], dict[str, dict[str, object]]], simulated_farm: Bench
) -> None:
    import os
    import signal

    stopped = simulated_farm.start_worker("cpu", name="stopped")
    os.kill(stopped.pid or 0, signal.SIGSTOP)
    try:
        assert {name: w["state"] for name, w in workers().items()} == {
            "cpu": "ready", "gpu": "ready", "openai": "ready", "stopped": "silent",
        }  # fmt: skip
    finally:
        os.kill(stopped.pid or 0, signal.SIGCONT)
        stopped.ask_to_stop()
        assert stopped.wait_end(10)
    until(lambda: "stopped" not in workers())


DAY_S = 24 * 3600


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
