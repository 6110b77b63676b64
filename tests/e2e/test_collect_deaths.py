"""A collection whose processes are killed: its output is that of the reference, and no stored call is made again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

import psutil
import pytest
from collection_folder import CollectionFolder
from run_folder import finish, process_of, wait_until

pytestmark = pytest.mark.long
# At how many moments each process is killed: two by default, ten with `make faults`.
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "2"))
PARTS = ("gpu", "openai", "cpu", "pool child", "target", "valkey", "endpoint", "supervisor")
# With two moments each process is killed once, all in one collection.
KILLS = [(part,) * MOMENTS for part in PARTS] if MOMENTS > 2 else [PARTS]
# An answer in one of these processes is lost with it.  The others hold none.
HOLDERS = ("gpu", "openai", "target", "endpoint", "supervisor")
TIMEOUT_S = 300.0


def test_killed_at_many_moments_it_resumes_and_repeats_nothing(
    reference_collection: CollectionFolder, collection: CollectionFolder
) -> None:
    total = reference_collection.answers()
    for moment in range(MOMENTS):
        wanted = total * (moment + 1) // (MOMENTS + 1)
        process = collection.start(*(["--resume"] if moment else []))
        wait_until(lambda w=wanted, p=process: collection.answers() >= w or p.poll() is not None, "answers")
        process.kill()
        process.communicate()
        wait_until(lambda: not collection.processes(), "the killed command's farm to end", 30)
    assert not collection.data.exists()
    done = collection.run("--resume")
    assert done.returncode == 0, done.stdout
    assert collection.comparable() == reference_collection.comparable()
    assert collection.repeated() == []
    assert collection.processes() == []


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("parts", KILLS, ids=lambda parts: "-".join(dict.fromkeys(parts)).replace(" ", "_"))
def test_no_kill_of_a_process_changes_the_output(
    reference_collection: CollectionFolder, collection: CollectionFolder, parts: tuple[str, ...]
) -> None:
    total, kills, losses = reference_collection.answers(), [time.time()], []
    process = collection.start()
    for moment, part in enumerate(parts):
        wanted = total * (moment + 1) // (len(parts) + 1)
        wait_until(lambda w=wanted, p=process: collection.answers() >= w or p.poll() is not None, "answers", TIMEOUT_S)
        current = kill(collection, process, part)
        if current is not process:
            # The farm stopped after the last kill, with all its processes.  They may have held answers since the kill
            # before it: between two kills in short succession no answer is stored.
            losses.append((kills[-2:][0], time.time()))
        process = current
        kills.append(time.time())
        if part in HOLDERS:
            losses.append((kills[-1], kills[-1]))
    done = finish(process, TIMEOUT_S)
    if done.returncode == 2:
        losses.append((kills[-2:][0], time.time()))
        done = collection.run("--resume", timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout
    assert collection.comparable() == reference_collection.comparable()
    assert collection.repeated(losses) == []
    assert collection.processes() == []


def kill(collection: CollectionFolder, process: subprocess.Popen[str], part: str) -> subprocess.Popen[str]:
    """Kill a process of the farm; returns the command, started again when the farm had stopped before.

    A farm in which one process dies five times in a minute stops, and the command ends with 2.
    """
    while True:
        if process.poll() is not None:
            done = finish(process)
            assert done.returncode == 2, f"it ended before the {part} was killed:\n{done.stdout}"
            assert "Traceback" not in done.stdout
            process = collection.start("--resume")
        wait_until(
            lambda p=process: process_of(collection, part) or p.poll() is not None, f"a {part} to kill", TIMEOUT_S
        )
        chosen = process_of(collection, part)
        if chosen is None:
            continue
        with suppress(psutil.NoSuchProcess):  # it may have ended with another process just now
            chosen.send_signal(signal.SIGKILL)
            return process
