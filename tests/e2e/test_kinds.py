"""What all kinds of runs promise: killed, stopped, parked or without a store, they end as one that nothing happened to.

No answer that is stored is asked for again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import redis
from guide_folder import MISSIONS, GuideFolder, ticket_rows
from rules_server import RulesServer
from run_folder import LOGS, RunFolder, finish, orchestrator, process_of, wait_until
from spec_checker import SpecChecker

from tasks.store.client import WAIT_VARIABLE
from workers.embedded.valkey import socket_path

pytestmark = pytest.mark.timeout(3600)
TIMEOUT_S = 600.0
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "1"))  # ten with `make faults`
PARTS = ("command", "gpu", "openai", "cpu", "pool child", "target", "valkey", "endpoint", "supervisor")
HOLDERS = ("gpu", "openai", "target", "endpoint", "supervisor")
"""An answer in one of these processes is lost with it.  The others hold none."""
KILLS = [(part,) * MOMENTS for part in PARTS] if MOMENTS > 1 else [PARTS]
"""With one moment each process is killed once, all in one run."""


class Pair(NamedTuple):
    """A finished run without any fault, and one of the same settings that has not begun."""

    calm: Any
    run: Any


@pytest.fixture(params=["run", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("collection", "guide"))])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    calm = request.getfixturevalue(f"reference_{request.param}")
    run = type(calm)(tmp_path)
    run.configure()
    yield Pair(calm, run)
    run.clear()


def kill_command(run: RunFolder, process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
    wait_until(lambda: not run.processes(), "the killed command's farm to end", 60)


def wait_for_answers(run: RunFolder, process: subprocess.Popen[str], wanted: int) -> None:
    """Until the farm has answered so many calls, or the command has ended."""
    wait_until(lambda: run.answers() >= wanted or process.poll() is not None, "answers", TIMEOUT_S)


@pytest.mark.parametrize("parts", KILLS, ids=lambda parts: "-".join(dict.fromkeys(parts)).replace(" ", "_"))
def test_no_kill_of_a_process_changes_what_comes_out(pair: Pair, parts: Sequence[str]) -> None:
    calm, run = pair
    with reading(run) as reads:
        losses = kill_each(run, calm.answers(), parts)
    assert run.result() == calm.result()
    assert run.repeated(losses, twice=calm.repeated()) == []
    assert all(reads) and (len(reads) > 100) == isinstance(run, GuideFolder)
    assert run.processes() == []


def kill_each(run: RunFolder, total: int, parts: Sequence[str]) -> list[tuple[float, float]]:
    """Kill these processes at equal distances in the run's `total` answers, and have the run end.

    Returns when answers may have been lost, as `RunFolder.repeated` takes it.
    """
    kills, losses = [time.time()], list[tuple[float, float]]()
    process = run.start()
    for moment, part in enumerate(parts):
        wait_for_answers(run, process, total * (moment + 1) // (len(parts) + 1))
        current = kill(run, process, part)
        if current is not process and part != "command":
            # The farm stopped after the last kill, with all its processes.  They may have held answers since the kill
            # before it: between two kills in short succession no answer is stored.
            losses.append((kills[-2:][0], time.time()))
        process = current
        kills.append(time.time())
        if part in HOLDERS:
            losses.append((kills[-1], kills[-1]))
    done = finish(process, TIMEOUT_S)
    while done.returncode == 2:
        losses.append((kills[-2:][0], time.time()))
        done = run.run(*run.again, timeout=TIMEOUT_S)
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
        wait_until(lambda p=process: process_of(run, part) or p.poll() is not None, f"a {part} to kill", TIMEOUT_S)
        if chosen := process_of(run, part):
            with suppress(psutil.NoSuchProcess):  # it may have ended with another process just now
                chosen.send_signal(signal.SIGKILL)
                return process


@contextmanager
def reading(run: RunFolder) -> Iterator[list[bool]]:
    """Read the guidance of a guided run without pause: whether it was whole each time, and at no earlier step."""
    reads, ended, steps = list[bool](), threading.Event(), dict.fromkeys(MISSIONS, 0)

    def read() -> None:
        while isinstance(run, GuideFolder) and not ended.wait(0.002):
            for name, path in zip(MISSIONS, run.guidance(), strict=True):
                with suppress(FileNotFoundError):  # the run has not begun
                    try:
                        entry = json.loads(path.read_text())[name]
                        reads.append(bool(entry["experiences"]) and entry["step"] >= steps[name])
                        steps[name] = entry["step"]
                    except (ValueError, KeyError):
                        reads.append(False)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield reads
    finally:
        ended.set()
        reader.join()


@pytest.mark.long
def test_from_the_output_folder_and_an_empty_store_a_run_goes_on(pair: Pair) -> None:
    calm, run = pair
    total, process = calm.answers(), run.start()
    wait_for_answers(run, process, total // 2)
    kill_command(run, process)
    for path in run.farm.iterdir():
        if path.name != "logs":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = run.run(*run.again, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout
    assert run.result() == calm.result()
    # What is in a journal is not asked for again; an evolution goes on from its last generation
    assert run.answers() < (2 * total if type(run) is RunFolder else total + total // 4)


@pytest.mark.long
def test_ctrl_c_keeps_the_state_and_ends_all_processes_and_the_same_command_continues(pair: Pair) -> None:
    calm, run = pair
    process = run.start()
    wait_until(lambda: len(run.answered(LOGS[0])) >= 4, "the first answers")
    socket = socket_path(run.farm)
    assert socket.exists()
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.returncode == 130, done.stdout
    assert "go on with: " in done.stdout or "goes on" in done.stdout
    assert run.processes() == [] and not socket.exists()
    again = run.run(*run.again, timeout=TIMEOUT_S)
    assert again.returncode == 0, again.stdout
    assert run.result() == calm.result()


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
    assert "parked" in status.stdout and "reflect of g0_child" in status.stdout
    assert run_folder.answered(LOGS[0])

    rules.fail("")
    done = orchestrator("retry", str(run_folder.output))
    assert done.returncode == 0, done.stdout
    assert run_folder.state() == reference_run.state()
    assert run_folder.repeated(twice=reference_run.repeated()) == []
    assert run_folder.processes() == []


@pytest.mark.long
@pytest.mark.parametrize("is_over", [True, False])
def test_a_run_waits_for_a_store_that_refuses_and_parks_when_it_does_so_for_too_long(
    run_folder: RunFolder, reference_run: RunFolder, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    if not is_over:
        monkeypatch.setenv(WAIT_VARIABLE, "8")
    process = run_folder.start()
    wait_for_answers(run_folder, process, 3)
    assert process.stdout is not None
    with redis.Redis(unix_socket_path=str(socket_path(run_folder.farm))) as client:
        client.config_set("maxmemory", "1")
        if is_over:
            assert any("the store refuses: OOM" in line for line in process.stdout)
            client.config_set("maxmemory", "0")
    done = finish(process)
    if not is_over:
        assert done.returncode == 3 and "refuses: OOM" in done.stdout, done.stdout
        assert f"go on with: orchestrator retry {run_folder.output}" in done.stdout
        assert "OOM" in orchestrator("status", str(run_folder.output)).stdout
        done = orchestrator("retry", str(run_folder.output))
    assert done.returncode == 0, done.stdout
    assert run_folder.state() == reference_run.state()
    assert not run_folder.repeated(twice=reference_run.repeated())


def billed(rules: RulesServer) -> float:
    """The price in dollars of all answered calls, from the log of the endpoint."""
    return sum(100 * call["prompt_tokens"] + 5 * call["completion_tokens"] for call in rules.calls()) / 1e6


@pytest.mark.long
def test_a_run_parks_at_its_budget_and_continues_when_it_is_raised(
    reference_run: RunFolder, run_folder: RunFolder, rules: RulesServer
) -> None:
    run_folder.options |= rules.options
    # when the budget of a run is smaller than the cost of its first generation: the whole run costs about 0.80 dollars
    parked = run_folder.run(BUDGET_USD="0.3", OPENAI_PRICES="100 50 5")
    # then it parks and names the command that continues it
    assert parked.returncode == 3, parked.stdout
    assert "parked: the budget of 0.3 US dollars is reached" in parked.stdout
    assert f"orchestrator retry {run_folder.output} --set BUDGET_USD=0.6" in parked.stdout
    # and its cost is within the budget and equals what the endpoint's log gives
    status = json.loads(orchestrator("status", str(run_folder.output), "--json").stdout)
    assert (status["state"], status["budget_usd"], status["unconfirmed_usd"]) == ("parked", 0.3, 0)
    assert status["cost_usd"] == pytest.approx(billed(rules), abs=1e-9)
    assert 0.1 < status["cost_usd"] <= 0.3

    # when its budget is raised
    done = orchestrator("retry", str(run_folder.output), "--set", "BUDGET_USD=2")
    # then it ends in the state of a run without a budget, with no call made twice
    assert done.returncode == 0, done.stdout
    assert run_folder.state() == reference_run.state()
    assert [call for call, times in Counter(run_folder.answered(LOGS[1])).items() if times > 1] == []
    # and the report, the history and the status give the cost of the endpoint's log
    cost = json.loads(orchestrator("status", str(run_folder.output), "--json").stdout)["cost_usd"]
    assert cost == pytest.approx(billed(rules), abs=1e-9) and f"${cost:.4f} of $2.00" in done.stdout
    history = [json.loads(line) for line in (run_folder.output / "history.jsonl").read_text().splitlines()]
    assert 0.5 * cost < sum(g["cost_usd"] for g in history) <= cost + 1e-5


@pytest.mark.long
def test_all_that_a_run_leaves_is_what_the_specification_makes_of_the_answers(reference_guide: GuideFolder) -> None:
    gates = set()
    for name in MISSIONS:
        folder = reference_guide.output / name
        tickets = [row for row in ticket_rows() if row["mission"] == name]
        assert SpecChecker(folder, name, reference_guide.settings(), tickets).check() == []
        gates |= {line["gate"] for line in reference_guide.lines(name, "reflection.jsonl")}
    assert gates <= {"applied", "uplift", "probability", "false_pass"}, "each proposal came to its preview"
