"""A second process for a run at work, a copy of its folder, and a process that was killed: one run, one owner."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

from farm_bench import until
from simulated_run import Driver
from terminal import Terminal, ended

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
