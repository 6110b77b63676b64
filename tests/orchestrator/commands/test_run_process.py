"""The process of a run: one owner, an output that is lost, a terminal that hangs up."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal

import pytest
from farm_bench import until
from simulated_run import Driver
from terminal import CHILDREN, Terminal, ended, run_here

from orchestrator import console
from orchestrator.runs.folder import run_file
from tasks.store.ownership import read_lease

FIRST = "g0_pop0"


def test_a_run_has_one_owner_whichever_folder_it_is_started_from(
    terminal: Terminal, driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a run at work, whose first answer takes its time, and a copy of its folder
    driver.set_signal("hold", "answer", FIRST)
    running, output = terminal.evolve(), terminal.output
    until(lambda: driver.began("answer", FIRST), 60)
    run_id, copy = run_file(output)["id"], output.with_name("copy")
    shutil.copytree(output, copy)
    # When a second process starts it, then it is refused, says who works on it, and nothing is moved
    evolve = terminal.evolve_command()[3:]
    for arguments in ((), ("--fresh",)):
        status, printed = run_here(capsys, *evolve, *arguments)
        assert (status, f"output is in use: process {running.pid} on host" in printed) == (4, True), printed
    assert not output.with_name("output.1").exists()
    # When the copy is started, cancelled or deleted, then it is refused
    for command in (("cancel",), ("runs", "--delete"), ("retry",)):
        status, printed = run_here(capsys, *command, copy)
        assert (status, f"copy is a copy of {output}" in printed) == (1, True), printed
    # When a folder says that it is no copy, then the lease refuses it
    values = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**values, "folder": str(copy)}))
    status, printed = run_here(capsys, *[copy if word == str(output) else word for word in evolve])
    assert status == 4 and f"in use: process {running.pid} on host" in printed and f"folder {output}" in printed
    # When the run goes on, then it ends
    driver.clear_signal("hold", "answer", FIRST)
    status, printed = ended(running)
    assert status == 0, printed
    assert read_lease(driver.store.redis, run_id) is None


@pytest.mark.parametrize("pipeline", ["| head -n 1", ">&- 2> /dev/full"], ids=["unread", "closed and full"])
def test_a_run_whose_output_is_lost_is_finished(terminal: Terminal, driver: Driver, pipeline: str) -> None:
    # Given a run in a shell: its reader reads one line, or its output is closed and its disk is full
    script = f'exec 3>&1; {{ "$@"; echo status $? >&3; }} {pipeline}'
    # When it runs
    status, said = terminal.shell(script, *terminal.evolve_command())
    # Then it is finished, as its files say
    assert "status 0" in said, said
    assert status == 0 and "Traceback" not in said
    state = json.loads((terminal.output / "evolution_state.json").read_text())
    assert state["generation"] == 2 and (terminal.output / "report.txt").exists()


def test_clusters_that_nobody_can_read_are_an_error(terminal: Terminal) -> None:
    for file, status in (("/dev/null", console.DONE), ("/dev/full", console.BROKEN)):
        assert terminal.shell(f'"$@" > {file}', *terminal.evolve_command(), "--step", "cluster")[0] == status


def test_a_run_whose_terminal_hangs_up_in_its_first_generation_leaves_what_is_known(
    terminal: Terminal, driver: Driver
) -> None:
    # Given a run in a terminal of its own, whose population is evaluated, and one of whose children is not
    for node in CHILDREN:
        driver.set_signal("hold", "reflect", node)
    pid, screen = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored where the tests themselves run under nohup
        terminal.execute(*terminal.evolve_command())
    until(lambda: any(driver.began("reflect", node) for node in CHILDREN), 60)
    driver.clear_signal("hold", "reflect", CHILDREN[0])
    until(lambda: driver.ended("score", CHILDREN[0]), 60)
    # When the terminal is closed
    os.close(screen)
    # Then the run ends with the status of the signal, and its state, its best deltas and their processor are there
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == console.BY_SIGNAL + signal.SIGHUP
    state = json.loads((terminal.output / "evolution_state.json").read_text())
    assert (state["generation"], state["best_individual"]) == (0, None)
    assert set(json.loads((terminal.output / "deltas_best.json").read_text()).values()) == {0.0}
    assert "DELTAS = {" in (terminal.output / "processor_best.py").read_text()
    # And when it goes on, then the population is not asked again
    driver.clear_signal("hold", "reflect", CHILDREN[1])
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said
    assert driver.began("answer", FIRST) == 1
