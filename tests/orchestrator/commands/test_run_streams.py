"""A run whose standard output is lost goes on; one whose terminal hangs up ends in order."""

from __future__ import annotations

import json
import os
import pty
import signal

import pytest
from farm_bench import until
from simulated_run import Driver
from terminal import CHILDREN, Terminal

from orchestrator import console


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
