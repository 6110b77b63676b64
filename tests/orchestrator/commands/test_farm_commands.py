"""`orchestrator farm` and `doctor`: looking at a farm, telling it something, and removing what it no longer needs."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from farm_bench import Bench, until
from terminal import run_here

from orchestrator.farm.connection import control
from tasks.store import keys
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.ownership import Owner, RunLease
from tasks.store.store import Store
from tasks.store.workers import code_version

Run = Callable[..., tuple[int, str]]
DAY_S = 24 * 3600
EMBEDDED = Path(__file__).parents[3] / "configs" / "embedded.config"


@pytest.fixture
def orchestrator(simulated_farm: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command on the simulated farm; its exit status, and what it said."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, simulated_farm.url)
    return lambda *arguments: run_here(capsys, *arguments)


def workers(orchestrator: Run) -> dict[str, dict[str, Any]]:
    status, said = orchestrator("farm", "workers", "--json")
    assert status == 0
    return {worker["worker"].partition("@")[0]: worker for worker in json.loads(said)["workers"]}


def test_workers_are_listed_with_what_they_are(orchestrator: Run, simulated_farm: Bench) -> None:
    found = workers(orchestrator)
    assert {name: (w["queue"], w["state"], w["slots"]) for name, w in found.items()} == {
        "cpu": ("cpu", "ready", 2),
        "gpu": ("gpu", "ready", 2),
        "openai": ("openai", "ready", 2),
    }
    assert {w["pid"] for w in found.values()} == {worker.pid for worker in simulated_farm.workers}
    assert orchestrator("farm", "workers")[1].count(code_version()) == 3


def test_a_queue_is_paused_and_resumed(orchestrator: Run) -> None:
    assert orchestrator("farm", "workers", "--pause", "openai")[0] == 0
    assert workers(orchestrator)["openai"]["state"] == "paused"
    # The doctor sees it, and says how to mend it
    status, said = orchestrator("doctor")
    assert status == 1 and "orchestrator farm workers --resume openai" in said
    assert orchestrator("farm", "workers", "--resume", "openai")[0] == 0
    assert workers(orchestrator)["openai"]["state"] == "ready"
    assert orchestrator("farm", "workers", "--pause", "gpu7")[0] == 1
    assert orchestrator("farm", "workers", "--resume", "cpu")[0] == 1


def test_the_doctor_looks_at_everything(orchestrator: Run) -> None:
    status, said = orchestrator("doctor", "--json")
    findings = {finding["check"]: finding for finding in json.loads(said)}
    wanted = ["disk here", "broker", "kept data", "memory", "clock", "code"]
    assert {*wanted, *(f"workers of {queue}" for queue in ("gpu", "openai", "cpu"))} <= set(findings)
    [wrong] = [finding for finding in findings.values() if not finding["ok"]]
    assert (status, wrong["check"].partition("@")[0]) == (1, "key of openai") and wrong["hint"]  # this farm has none


def test_the_doctor_says_when_there_is_no_broker(orchestrator: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "unix:///nowhere/valkey.sock?db=0")
    status, said = orchestrator("doctor")
    assert status == 1 and "WRONG  broker" in said
    assert orchestrator("farm", "workers")[0] == 2


def test_the_doctor_says_that_the_output_folder_cannot_be_written(orchestrator: Run, tmp_path: Path) -> None:
    config = tmp_path / "a.config"
    config.write_text(re.sub("(CONFIG_OUTPUT_DIR)=.*", r'\1="/proc/x"', EMBEDDED.read_text()))
    status, said = orchestrator("doctor", "--config", config)
    assert status == 1 and "/proc cannot be written" in said and "GB free; make room" not in said


def test_the_farm_names_the_endpoint_that_its_workers_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-mine")
    monkeypatch.setattr(control, "up", lambda spec: control.Farm(tmp_path, "unix://store", None, None, None))
    changed = ("--set", f"FARM_DIR={tmp_path}", "--set", "OPENAI_BASE_URL=http://127.0.0.1:9/v1")
    _, said = run_here(capsys, "farm", "up", "--config", EMBEDDED, *changed)
    assert "reflector, judge   http://127.0.0.1:9/v1\n" in said


@pytest.mark.long
def test_a_silent_worker_is_told_from_one_that_answers(orchestrator: Run, simulated_farm: Bench) -> None:
    stopped = simulated_farm.start_worker("cpu", name="stopped")
    os.kill(stopped.pid or 0, signal.SIGSTOP)
    try:
        found = {name: worker["state"] for name, worker in workers(orchestrator).items()}
        assert found == {"cpu": "ready", "gpu": "ready", "openai": "ready", "stopped": "silent"}
    finally:
        os.kill(stopped.pid or 0, signal.SIGCONT)
        stopped.ask_to_stop()
        assert stopped.wait_end(10)
    until(lambda: "stopped" not in workers(orchestrator))


@pytest.fixture
def gc(valkey_url: str, store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `farm gc` on a store with a finished and a parked run; its exit status and output."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)
    for run, state in (("ended", "finished"), ("waits", "parked")):
        store.set_requirements(run, "code", "model")
        store.put_metadata(run, keys.STATUS, json.dumps({"state": state, "updated": time.time() - 31 * DAY_S}))
    return lambda *arguments: run_here(capsys, "farm", "gc", *arguments)


def test_it_shows_what_it_would_remove_and_removes_it_when_told_to(gc: Run, store: Store) -> None:
    status, printed = gc()
    assert status == 0 and "run ended, finished since" in printed and "run waits, parked since" in printed
    assert store.run_ids() == ["ended", "waits"]
    status, printed = gc("--remove", "--json")
    assert (status, json.loads(printed)["removed"]) == (0, {"runs": 1, "results": 0})
    assert store.run_ids() == ["waits"]
    # And one that is not finished by its id
    status, printed = gc("--run", "waits", "--json")
    assert (status, json.loads(printed)["removed"], store.run_ids()) == (0, None, ["waits"])
    assert gc("--run", "waits", "--days", "40", "--remove")[0] == 0
    assert store.run_ids() == []


def test_a_run_that_is_at_work_or_unknown_is_refused_and_nothing_is_removed(gc: Run, store: Store) -> None:
    assert RunLease(store.redis, "waits", Owner.here("outputs/waits")).take()
    for run, reason in (("waits", "it is running"), ("unknown", "no such run")):
        status, printed = gc("--run", run, "--remove")
        assert status == 1 and reason in printed
    assert store.run_ids() == ["ended", "waits"]
