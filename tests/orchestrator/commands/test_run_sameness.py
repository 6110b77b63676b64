"""A parked run goes on with the questions and the target server that it began with, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from simulated_run import Driver
from simulated_signals import signal_key
from terminal import ROOT, SMALL, Terminal, ended

from orchestrator.runs.folder import run_file

pytestmark = pytest.mark.long


def test_a_parked_run_refuses_another_target_server_and_other_questions(
    terminal: Terminal, driver: Driver, tmp_path: Path
) -> None:
    # Given a run that parked in generation 1
    questions = tmp_path / "questions.jsonl"
    before = (ROOT / SMALL["DATA_PATH"]).read_text()
    questions.write_text(before)
    version = signal_key("version", "server", "identity")
    driver.store.redis.set(version, "1.0")
    driver.set_signal("fail", "reflect", "g1_child0_mut")
    status, said = ended(terminal.evolve(DATA_PATH=str(questions)))
    assert status == 3, said
    # What another server has answered since then is computed again
    driver.store.add_server(run_file(terminal.output)["id"], {"version": "1.1"})
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 3, said
    kept = {name: (terminal.output / name).read_bytes() for name in ("config", "servers.json")}
    assert json.loads(kept["servers.json"])["servers"] == [{"version": "1.0"}]
    assert "a server that is not the run's has answered" in said
    state = (terminal.output / "evolution_state.json").read_text()
    driver.clear_signal("fail", "reflect", "g1_child0_mut")
    judged = driver.began("judge", "g1_child1_pre")
    # When another server answers, then it is refused, both are named, and nothing is asked
    driver.store.redis.set(version, "2.0")
    status, said = terminal.run("retry", str(terminal.output), "--set", "TARGET_CONCURRENCY=61")
    assert status == 1, said
    assert kept == {name: (terminal.output / name).read_bytes() for name in kept}
    assert not (terminal.output / "settings_changes.json").exists()
    assert "CONFIG_SGLANG_COMMAND: the target server differs from that of the run" in said
    assert "version '1.0' is now '2.0'" in said
    # When a question has changed, then it is named before anything is started
    driver.store.redis.set(version, "1.0")
    first, *others = before.splitlines()
    row = json.loads(first)
    answer = next(name for name in row if "answer" in name)
    questions.write_text("\n".join([json.dumps(row | {answer: "42 apples"}), *others]))
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 1, said
    assert "CONFIG_DATA_PATH: the training set has changed (" in said and "starting" not in said
    assert (driver.began("judge", "g1_child1_pre"), (terminal.output / "evolution_state.json").read_text()) == (
        judged, state
    )  # fmt: skip
    # When both are as before, then the run goes on, and keeps which server answered
    questions.write_text(before)
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said
    assert json.loads((terminal.output / "servers.json").read_text())["servers"] == [{"version": "1.0"}]
