"""What all kinds of runs promise: killed, stopped, parked or without a store, they end as one that nothing happened to.

No answer that is stored is asked for again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from rules_server import RulesServer
from run_folder import (
    LOGS,
    CollectionFolder,
    GuideFolder,
    RunFolder,
    farm_up,
    finish,
    orchestrator,
    process_of,
    wait_until,
)

from orchestrator import console
from tasks.store.address import queues_url, store_url
from tasks.store.client import connect
from workers.embedded.valkey import socket_path

pytestmark = pytest.mark.timeout(3600)
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "1"))  # ten with `make faults`
PARTS = ("gpu", "openai", "cpu", "pool child", "target", "valkey", "endpoint", "supervisor")
HOLDERS = ("gpu", "openai", "target", "endpoint", "supervisor")
"""An answer in one of these processes is lost with it.  The others hold none."""
KILLS = [(part,) * MOMENTS for part in ("command", *PARTS)] if MOMENTS > 1 else [PARTS]
"""With one moment each process is killed once, all in one run, after the command, which is killed before a write."""


class Pair(NamedTuple):
    """A finished run without any fault, and one of the same settings that has not begun."""

    calm: Any
    run: Any


LONG = pytest.mark.long
KINDS = ["run", *(pytest.param(kind, marks=LONG) for kind in ("collection", "guide"))]


@pytest.fixture(params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    calm = request.getfixturevalue(f"reference_{request.param}")
    run = type(calm)(tmp_path)
    run.configure()
    yield Pair(calm, run)
    run.clear()


def kill_command(run: RunFolder, process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
    wait_until(lambda: not run.processes(), "the killed command's farm to end")


def wait_for_answers(run: RunFolder, process: subprocess.Popen[str], wanted: int) -> None:
    """Until the farm has answered so many calls, or the command has ended."""
    wait_until(lambda: run.answers() >= wanted or process.poll() is not None, "answers")


@pytest.mark.parametrize("parts", KILLS, ids=lambda parts: "-".join(dict.fromkeys(parts)).replace(" ", "_"))
def test_no_kill_of_a_process_changes_what_comes_out(pair: Pair, parts: Sequence[str]) -> None:
    calm, run = pair
    losses = kill_each(run, calm.answers(), parts)
    check_equal(run, calm, losses)


def check_equal(run: RunFolder, calm: RunFolder, losses: Sequence[tuple[float, float]] = ()) -> None:
    """They have come to the same, no answer that was not lost was asked for again, and no process is left."""
    assert run.result() == calm.result()
    assert run.repeated(losses, twice=calm.repeated()) == []
    assert run.processes() == []


def kill_each(run: RunFolder, total: int, parts: Sequence[str]) -> list[tuple[float, float]]:
    """Kill these processes at equal distances in the rest of the run's `total` answers, and have the run end.

    Returns when answers may have been lost, as `RunFolder.repeated` takes it.
    """
    if MOMENTS == 1:
        run.kill_before_write(run.state_file)
    kills, losses, before = [time.time()], list[tuple[float, float]](), run.answers()
    process = run.start(*run.again) if MOMENTS == 1 else run.start()
    for moment, part in enumerate(parts):
        wait_for_answers(run, process, before + (total - before) * (moment + 1) // (len(parts) + 1))
        current = kill(run, process, part)
        if current is not process and part != "command":
            # The farm stopped after the last kill, with all its processes.  They may have held answers since the kill
            # before it: between two kills in short succession no answer is stored.
            losses.append((kills[-2:][0], time.time()))
        process = current
        kills.append(time.time())
        if part in HOLDERS:
            losses.append((kills[-1], kills[-1]))
    done = finish(process)
    while done.returncode == 2:
        losses.append((kills[-2:][0], time.time()))
        done = run.run(*run.again)
    assert done.returncode == 0, done.stdout
    return losses


def kill(run: RunFolder, process: subprocess.Popen[str], part: str) -> subprocess.Popen[str]:
    """Kill a process; returns the command, started again when it was killed or its farm had stopped before.

    A farm that has lost its supervisor, or in which one process dies five times in a minute, stops: the command ends
    with 2.
    """
    while True:
        if process.poll() is not None:
            done = finish(process)
            assert done.returncode == 2, f"it ended before the {part} was killed:\n{done.stdout}"
            assert "Traceback" not in done.stdout
            process = run.start(*run.again)
        if part == "command":
            kill_command(run, process)
            return run.start(*run.again)
        wait_until(lambda p=process: process_of(run, part) or p.poll() is not None, f"a {part} to kill")
        if chosen := process_of(run, part):
            with suppress(psutil.NoSuchProcess):  # it may have ended with another process just now
                chosen.send_signal(signal.SIGKILL)
                return process


@LONG
def test_from_the_output_folder_and_an_empty_store_a_run_goes_on(pair: Pair) -> None:
    calm, run = pair
    total, process = calm.answers(), run.start()
    wait_for_answers(run, process, total // 2)
    kill_command(run, process)
    for path in run.farm.iterdir():
        if path.name != "logs":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = run.run(*run.again)
    assert done.returncode == 0, done.stdout
    assert run.result() == calm.result()
    # What is in a journal is not asked for again.  An evolution repeats its generation, and a collection, which has
    # twelve answers in all, the questions of which it had not all samples.
    assert run.answers() < (total + total // 4 if isinstance(run, GuideFolder) else 2 * total)


@LONG
def test_ctrl_c_keeps_the_state_and_ends_all_processes_and_the_same_command_continues(pair: Pair) -> None:
    calm, run = pair
    process = run.start()
    wait_for_answers(run, process, 4)
    socket = socket_path(run.farm)
    assert socket.exists()
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.returncode == 130 and "go on" in done.stdout.replace("goes on", "go on"), done.stdout
    assert run.processes() == [] and not socket.exists()
    again = run.run(*run.again)
    assert again.returncode == 0, again.stdout
    check_equal(run, calm)


@LONG
def test_an_endpoint_that_refuses_parks_a_run_and_retry_ends_it(pair: Pair, rules: RulesServer) -> None:
    calm, run = pair
    run.ask(rules)
    rules.fail("*:quota:*")
    parked = run.run()
    assert parked.returncode == console.PARKED and "Traceback" not in parked.stdout, parked.stdout
    assert f"orchestrator retry {run.output}" in parked.stdout
    assert json.loads(orchestrator("status", str(run.output), "--json").stdout)["state"] == "parked"
    assert json.loads(orchestrator("failed", str(run.output), "--json").stdout)
    assert run.answered(LOGS[0])
    rules.fail("")
    done = orchestrator("retry", str(run.output))
    assert done.returncode == 0, done.stdout
    check_equal(run, calm)


@LONG
def test_a_run_is_cancelled_deleted_and_started_again_and_has_one_owner(pair: Pair) -> None:
    # Given a run on a farm that stays up
    calm, run = pair
    with farm_up(run) as farm:
        process = run.start()
        wait_for_answers(run, process, 2)
        # When it is started a second time, then that is refused
        assert run.run(*run.again).returncode == console.IN_USE
        # When it is cancelled, then it parks and its command ends
        cancelled = orchestrator("cancel", str(run.output))
        assert cancelled.returncode == 0, cancelled.stdout
        assert finish(process).returncode == console.PARKED
        # When it is deleted, then no key of it is left in the farm
        run_id = json.loads((run.output / "run.json").read_text())["id"]
        deleted = orchestrator("runs", "--delete", str(run.output))
        assert deleted.returncode == 0, deleted.stdout
        for client in (connect(store_url(farm)), connect(queues_url(farm))):
            assert list(client.scan_iter(match=f"*{run_id}*", count=1000)) == []
        # When it is retried, then it ends
        done = orchestrator("retry", str(run.output))
        assert done.returncode == 0, done.stdout
    assert run.result() == calm.result()


def billed(run: RunFolder, rules: RulesServer) -> float:
    """The price in dollars of all answered calls, from the log of the endpoint."""
    prompt, completion = (1000, 0) if isinstance(run, CollectionFolder) else (100, 5)
    return sum(prompt * call["prompt_tokens"] + completion * call["completion_tokens"] for call in rules.calls()) / 1e6


@LONG
@pytest.mark.parametrize("pair", ["run", "collection"], indirect=True)
def test_a_run_parks_at_its_budget_and_ends_when_it_is_raised(pair: Pair, rules: RulesServer) -> None:
    # Given a run that costs more than its budget
    calm, run = pair
    run.ask(rules)
    # Then it parks before they cost more, and names the option
    parked = run.run(*run.priced)
    assert parked.returncode == console.PARKED, parked.stdout
    assert f"orchestrator retry {run.output} --set {run.budget}=" in parked.stdout
    # And its cost is within the budget, and what the endpoint's log gives
    status = json.loads(orchestrator("status", str(run.output), "--json").stdout)
    assert (status["state"], status["unconfirmed_usd"]) == ("parked", 0)
    assert status["cost_usd"] == pytest.approx(billed(run, rules), abs=1e-9)
    assert 0 < status["cost_usd"] <= status["budget_usd"]
    # When the budget is larger, then it ends, and no call was paid twice
    done = orchestrator("retry", str(run.output), "--set", f"{run.budget}=1000")
    assert done.returncode == 0, done.stdout
    assert run.result() == calm.result()
    paid = run.answered(LOGS[1])
    assert len(paid) == len({*paid})
    cost = json.loads(orchestrator("status", str(run.output), "--json").stdout)["cost_usd"]
    assert cost == pytest.approx(billed(run, rules), abs=1e-9)
