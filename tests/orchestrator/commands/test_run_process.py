"""The process of a run: one owner, an output that is lost, a terminal that hangs up, a tracker over two sessions."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
from pathlib import Path

import pytest
from farm_bench import until
from simulated_run import Driver
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from terminal import CHILDREN, Terminal, ended, history

from orchestrator import console
from orchestrator.runs.folder import run_file
from tasks.store.ownership import read_lease

FIRST = "g0_pop0"


def beside(terminal: Terminal, folder: Path, *arguments: str) -> tuple[int, str]:
    """`orchestrator evolve` with the terminal's settings and another output folder."""
    command = [str(folder) if word == str(terminal.output) else word for word in terminal.evolve_command()[3:]]
    return ended(terminal.start(*command, *arguments))


def test_a_run_has_one_owner_whichever_folder_it_is_started_from(terminal: Terminal, driver: Driver) -> None:
    # Given a run at work, whose first answer takes its time, and a copy of its folder
    driver.set_signal("hold", "answer", FIRST)
    running, output = terminal.evolve(), terminal.output
    until(lambda: driver.began("answer", FIRST), 60)
    run_id, copy = run_file(output)["id"], output.with_name("copy")
    shutil.copytree(output, copy)
    # When a second process starts it, then it is refused, says who works on it, and nothing is moved
    for arguments in ((), ("--fresh",)):
        status, printed = beside(terminal, output, *arguments)
        assert (status, f"output is in use: process {running.pid} on host" in printed) == (4, True), printed
    assert not output.with_name("output.1").exists()
    # When the copy is started, cancelled or deleted, then it is refused
    for command in (("cancel",), ("runs", "--delete"), ("retry",)):
        status, printed = terminal.run(*command, str(copy))
        assert (status, f"copy is a copy of {output}" in printed) == (1, True), printed
    # When a folder says that it is no copy, then the lease refuses it
    clone = output.with_name("clone")
    shutil.copytree(output, clone)
    values = json.loads((clone / "run.json").read_text())
    (clone / "run.json").write_text(json.dumps({**values, "folder": str(clone)}))
    status, printed = beside(terminal, clone)
    assert status == 4 and f"in use: process {running.pid} on host" in printed and f"folder {output}" in printed
    # When the run goes on, then it ends
    driver.clear_signal("hold", "answer", FIRST)
    status, printed = ended(running)
    assert status == 0, printed
    assert read_lease(driver.store.redis, run_id) is None


def test_what_a_killed_owner_left_in_the_queues_is_done_once(terminal: Terminal, driver: Driver) -> None:
    # Given a run whose process is killed while a worker answers
    driver.set_signal("hold", "answer", FIRST)
    running = terminal.evolve()
    until(lambda: driver.began("answer", FIRST), 60)
    running.send_signal(signal.SIGKILL)
    running.wait()
    held = read_lease(driver.store.redis, run_file(terminal.output)["id"])
    assert held is not None and held.owner.has_ended()
    # When the same command is started, then it goes on at once, and answers and judges nothing again
    driver.clear_signal("hold", "answer", FIRST)
    status, printed = ended(terminal.evolve())
    assert status == 0, printed
    assert (driver.began("answer", FIRST), driver.began("judge", FIRST)) == (1, 1)


@pytest.mark.parametrize("lost", ["unread", "full", "closed"])
def test_a_run_whose_output_is_lost_is_finished(terminal: Terminal, driver: Driver, lost: str) -> None:
    # Given a run in a shell: its reader reads one line, its disk is full, or its output is closed
    pipeline = {"unread": "| head -n 1", "full": "> /dev/full", "closed": ">&-"}[lost]
    script = f'{{ "$@"; echo status $? >&2; }} {pipeline}'
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


def test_a_run_whose_terminal_hangs_up_ends_in_order(terminal: Terminal, driver: Driver) -> None:
    # Given a run in a terminal of its own, in its first generation
    driver.set_signal("hold", "reflect", CHILDREN[0])
    pid, screen = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored where the tests themselves run under nohup
        terminal.execute(*terminal.evolve_command())
    until(lambda: driver.began("reflect", CHILDREN[0]), 60)
    # When the terminal is closed
    os.close(screen)
    # Then the run ends with the status of the signal, and its folder has what is known
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == console.BY_SIGNAL + signal.SIGHUP
    assert (terminal.output / "deltas_best.json").exists()
    driver.clear_signal("hold", "reflect", CHILDREN[0])
    # And it goes on
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said


def test_a_tracker_has_each_generation_of_a_run_once_over_its_sessions(terminal: Terminal, driver: Driver) -> None:
    # Given a run that parked because the reflector failed for one child, and was retried
    driver.set_signal("fail", "reflect", CHILDREN[0])
    status, said = ended(terminal.evolve(CALLBACKS="examples/trackers.py:TensorboardTracker"))
    assert status == 3, said
    driver.clear_signal("fail", "reflect", CHILDREN[0])
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said
    # Then its tracker has each generation once
    events = EventAccumulator(str(terminal.output / "tensorboard")).Reload()
    best = [(line["generation"], line["best"]) for line in history(terminal)]
    assert [(each.step, each.value) for each in events.Scalars("fitness/best")] == best
