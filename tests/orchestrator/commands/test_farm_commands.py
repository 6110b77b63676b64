"""`orchestrator farm` and `doctor`: looking at a farm, telling it something, and removing what it no longer needs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from farm_bench import Bench

from tasks.store import keys
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.ownership import Owner, RunLease
from tasks.store.store import Store

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def on_farm(simulated_farm: Bench, monkeypatch: pytest.MonkeyPatch, run: Run) -> Run:
    """Runs a command on the simulated farm."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, simulated_farm.url)
    return run


def workers(on_farm: Run) -> dict[str, dict[str, Any]]:
    status, said = on_farm("farm", "workers", "--json")
    assert status == 0
    return {worker["worker"].partition("@")[0]: worker for worker in json.loads(said)["workers"]}


def test_workers_are_listed_and_a_queue_is_paused_and_resumed(on_farm: Run, simulated_farm: Bench) -> None:
    found = workers(on_farm)
    assert {name: (w["queue"], w["state"], w["slots"]) for name, w in found.items()} == {
        name: (name, "ready", 2) for name in ("cpu", "gpu", "openai")
    }
    assert {w["pid"] for w in found.values()} == {worker.pid for worker in simulated_farm.workers}
    assert on_farm("farm", "workers", "--pause", "openai")[0] == 0
    assert workers(on_farm)["openai"]["state"] == "paused"
    # The doctor sees it, and says how to mend it
    status, said = on_farm("doctor")
    assert status == 1 and "orchestrator farm workers --resume openai" in said
    assert on_farm("farm", "workers", "--resume", "openai")[0] == 0
    assert workers(on_farm)["openai"]["state"] == "ready"
    assert on_farm("farm", "workers", "--pause", "gpu7")[0] == on_farm("farm", "workers", "--resume", "cpu")[0] == 1


def test_the_doctor_looks_at_everything(on_farm: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, said = on_farm("doctor", "--json")
    findings = {finding["check"]: finding for finding in json.loads(said)}
    wanted = ["disk here", "broker", "kept data", "memory", "clock", "code"]
    assert {*wanted, *(f"workers of {queue}" for queue in ("gpu", "openai", "cpu"))} <= set(findings)
    [wrong] = [finding for finding in findings.values() if not finding["ok"]]
    assert (status, wrong["check"].partition("@")[0]) == (1, "key of openai") and wrong["hint"]  # this farm has none
    # and says that an output folder cannot be written, and that there is no broker
    config = tmp_path / "a.config"
    config.write_text(re.sub("(CONFIG_OUTPUT_DIR)=.*", r'\1="/proc/x"', Path("configs/embedded.config").read_text()))
    status, said = on_farm("doctor", "--config", config)
    assert status == 1 and "/proc cannot be written" in said and "GB free; make room" not in said
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "unix:///nowhere/valkey.sock?db=0")
    status, said = on_farm("doctor")
    assert status == 1 and "WRONG  broker" in said
    assert on_farm("farm", "workers")[0] == 2


def test_gc_shows_what_it_would_remove_removes_it_when_told_to_and_refuses_a_run_at_work(
    valkey_url: str, store: Store, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)
    for name, state in (("ended", "finished"), ("waits", "parked")):
        store.set_requirements(name, "code", "model")
        store.put_metadata(name, keys.STATUS, json.dumps({"state": state, "updated": time.time() - 31 * 24 * 3600}))
    status, said = run("farm", "gc")
    assert status == 0 and "run ended, finished since" in said and "run waits, parked since" in said
    # One that is at work, or unknown, is refused
    lease = RunLease(store.redis, "waits", Owner.here("outputs/waits"))
    assert lease.take()
    for name, reason in (("waits", "it is running"), ("unknown", "no such run")):
        status, said = run("farm", "gc", "--run", name, "--remove")
        assert status == 1 and reason in said
    assert store.run_ids() == ["ended", "waits"]
    lease.release()
    # The finished one goes, and one that is not finished by its id
    status, said = run("farm", "gc", "--remove", "--json")
    assert (status, json.loads(said)["removed"]) == (0, {"runs": 1, "results": 0})
    assert store.run_ids() == ["waits"]
    assert run("farm", "gc", "--run", "waits", "--days", "40", "--remove")[0] == 0
    assert store.run_ids() == []
