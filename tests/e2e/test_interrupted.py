"""Runs that are stopped, and go on: nothing finished is done again, and the end is the undisturbed one."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter

import pytest
from workplace import Workplace, finish, orchestrator, wait_until

from workers.embedded.valkey import socket_path

LOGS = ("target_requests.jsonl", "endpoint_calls.jsonl")
# How many moments the kill test tries: one in every test run, ten with `make faults`.
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "1"))


def answers_so_far(place: Workplace) -> int:
    return sum(len(place.answered(log)) for log in LOGS)


def test_killed_at_many_moments_it_resumes_and_repeats_nothing(undisturbed: Workplace, workplace: Workplace) -> None:
    total = answers_so_far(undisturbed)
    for moment in range(MOMENTS):
        wanted = total * (moment + 1) // (MOMENTS + 1)
        process = workplace.start()
        wait_until(lambda w=wanted, p=process: answers_so_far(workplace) >= w or p.poll() is not None, "answers")
        process.kill()
        process.communicate()
        wait_until(lambda: not workplace.processes(), "the killed orchestrator's farm to go away", 30)
    done = workplace.run()
    assert done.returncode == 0, done.stdout
    assert workplace.state() == undisturbed.state()
    for log in LOGS:
        again = {key: times for key, times in Counter(workplace.answered(log)).items() if times > 1}
        assert again == {}, f"{log}: answered more than once"
    assert workplace.processes() == []


@pytest.mark.long
def test_from_the_state_file_alone_with_an_empty_store(undisturbed: Workplace, workplace: Workplace) -> None:
    process = workplace.start()
    wait_until((workplace.output / "evolution_state.json").exists, "the first generation")
    process.send_signal(signal.SIGTERM)
    finish(process)
    assert process.returncode == 143
    assert json.loads(workplace.state())["generation"] == 1
    shutil.rmtree(workplace.farm)
    kept = [workplace.output / "evolution_state.json", workplace.output / "config", workplace.output / "run.json"]
    for path in workplace.output.iterdir():
        if path not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = workplace.run()
    assert done.returncode == 0, done.stdout
    assert workplace.state() == undisturbed.state()


@pytest.mark.long
def test_ctrl_c_leaves_state_and_no_process_and_the_same_command_goes_on(
    undisturbed: Workplace, workplace: Workplace
) -> None:
    process = workplace.start()
    wait_until(lambda: len(workplace.answered(LOGS[0])) >= 4, "the first children's answers")
    socket = socket_path(workplace.farm)
    assert socket.exists()
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.returncode == 130, done.stdout
    assert "goes on" in done.stdout
    assert workplace.processes() == []
    assert not socket.exists()
    again = workplace.run()
    assert again.returncode == 0, again.stdout
    assert workplace.state() == undisturbed.state()


@pytest.mark.long
def test_a_reflector_that_keeps_failing_parks_the_run_and_retry_goes_on(
    undisturbed: Workplace, workplace: Workplace
) -> None:
    parked = workplace.run(EMBEDDED_FAULTS="mutation:quota:*")
    assert parked.returncode == 3, parked.stdout
    assert f"orchestrator retry {workplace.output}" in parked.stdout
    assert "Traceback" not in parked.stdout
    status = orchestrator("status", str(workplace.output))
    assert "parked" in status.stdout
    assert "reflect of g0_child" in status.stdout
    answered = workplace.answered(LOGS[0])
    assert answered

    done = orchestrator("retry", str(workplace.output), "--set", "EMBEDDED_FAULTS=")
    assert done.returncode == 0, done.stdout
    assert workplace.state() == undisturbed.state()
    counted = Counter(workplace.answered(LOGS[0]))
    assert [key for key, times in counted.items() if times > 1] == []
    assert workplace.processes() == []
