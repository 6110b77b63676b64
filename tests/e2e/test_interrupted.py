"""Runs that are stopped and continue: nothing is computed again, and the final state is that of the reference."""

from __future__ import annotations

import json
import shutil
import signal

import pytest
from killing import kill_at_moments, kill_moments
from rules_server import RulesServer
from run_folder import LOGS, RunFolder, finish, orchestrator, wait_until

from workers.embedded.valkey import socket_path


@pytest.mark.long
def test_killed_at_many_moments_it_resumes_and_repeats_nothing(
    reference_run: RunFolder, run_folder: RunFolder, rules: RulesServer
) -> None:
    run_folder.options |= rules.options
    kill_at_moments(run_folder, reference_run.answers(), kill_moments(1))
    done = run_folder.run()
    assert done.returncode == 0, done.stdout
    assert run_folder.state() == reference_run.state()
    assert run_folder.repeated(twice=reference_run.repeated()) == []
    assert run_folder.processes() == []


@pytest.mark.long
def test_a_run_continues_from_the_state_file_with_an_empty_store(
    reference_run: RunFolder, run_folder: RunFolder
) -> None:
    process = run_folder.start()
    wait_until((run_folder.output / "evolution_state.json").exists, "the first generation")
    process.send_signal(signal.SIGTERM)
    finish(process)
    assert process.returncode == 143
    assert json.loads(run_folder.state())["generation"] == 1
    shutil.rmtree(run_folder.farm)
    kept = [run_folder.output / "evolution_state.json", run_folder.output / "config", run_folder.output / "run.json"]
    for path in run_folder.output.iterdir():
        if path not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = run_folder.run()
    assert done.returncode == 0, done.stdout
    assert run_folder.state() == reference_run.state()


@pytest.mark.long
def test_ctrl_c_keeps_the_state_and_ends_all_processes_and_the_same_command_continues(
    reference_run: RunFolder, run_folder: RunFolder
) -> None:
    process = run_folder.start()
    wait_until(lambda: len(run_folder.answered(LOGS[0])) >= 4, "the first children's answers")
    socket = socket_path(run_folder.farm)
    assert socket.exists()
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.returncode == 130, done.stdout
    assert "goes on" in done.stdout
    assert run_folder.processes() == []
    assert not socket.exists()
    again = run_folder.run()
    assert again.returncode == 0, again.stdout
    assert run_folder.state() == reference_run.state()


@pytest.mark.long
def test_a_reflector_that_always_fails_parks_the_run_and_retry_continues_it(
    reference_run: RunFolder, run_folder: RunFolder, rules: RulesServer
) -> None:
    rules.fail("mutation:quota:*")
    parked = run_folder.run(**rules.options)
    assert parked.returncode == 3, parked.stdout
    assert f"orchestrator retry {run_folder.output}" in parked.stdout
    assert "Traceback" not in parked.stdout
    status = orchestrator("status", str(run_folder.output))
    assert "parked" in status.stdout
    assert "reflect of g0_child" in status.stdout
    answered = run_folder.answered(LOGS[0])
    assert answered

    rules.fail("")
    done = orchestrator("retry", str(run_folder.output))
    assert done.returncode == 0, done.stdout
    assert run_folder.state() == reference_run.state()
    assert run_folder.repeated(twice=reference_run.repeated()) == []
    assert run_folder.processes() == []
