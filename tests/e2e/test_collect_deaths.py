"""Phase 0 while parts of it are killed: the output is the undisturbed one, and no call that was kept is made again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

import psutil
import pytest
from collecting import Collecting
from workplace import finish, victim, wait_until

pytestmark = pytest.mark.long
# How many moments are tried of each: a few by default, ten with `make faults`.
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "2"))
PARTS = ("gpu", "openai", "cpu", "pool child", "target", "valkey", "endpoint", "supervisor")
# With few moments every part is killed once, all of them in one collection.
KILLS = [(part,) * MOMENTS for part in PARTS] if MOMENTS > 2 else [PARTS]
# Whoever has an answer in hand, or is about to hand it over, takes it along.  The others hold none.
HOLDERS = ("gpu", "openai", "target", "endpoint", "supervisor")
PATIENCE_S = 300.0


def test_killed_at_many_moments_it_resumes_and_repeats_nothing(collected: Collecting, place: Collecting) -> None:
    total = collected.answers()
    for moment in range(MOMENTS):
        wanted = total * (moment + 1) // (MOMENTS + 1)
        process = place.start(*(["--resume"] if moment else []))
        wait_until(lambda w=wanted, p=process: place.answers() >= w or p.poll() is not None, "answers")
        process.kill()
        process.communicate()
        wait_until(lambda: not place.processes(), "the killed command's farm to go away", 30)
    assert not place.data.exists()
    done = place.run("--resume")
    assert done.returncode == 0, done.stdout
    assert place.lasting() == collected.lasting()
    assert place.repeated() == []
    assert place.processes() == []


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("parts", KILLS, ids=lambda parts: "-".join(dict.fromkeys(parts)).replace(" ", "_"))
def test_no_death_on_the_farm_changes_the_output(
    collected: Collecting, place: Collecting, parts: tuple[str, ...]
) -> None:
    total, kills, losses = collected.answers(), [time.time()], []
    process = place.start()
    for moment, part in enumerate(parts):
        wanted = total * (moment + 1) // (len(parts) + 1)
        wait_until(lambda w=wanted, p=process: place.answers() >= w or p.poll() is not None, "answers", PATIENCE_S)
        going = kill(place, process, part)
        if going is not process:
            # The farm gave up after the last kill, and its holders went with it.  They may have had their answers since
            # the one before: nobody stores anything in the moment that a store lives between two kills.
            losses.append((kills[-2:][0], time.time()))
        process = going
        kills.append(time.time())
        if part in HOLDERS:
            losses.append((kills[-1], kills[-1]))
    done = finish(process, PATIENCE_S)
    if done.returncode == 2:
        losses.append((kills[-2:][0], time.time()))
        done = place.run("--resume", timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout
    assert place.lasting() == collected.lasting()
    assert place.repeated(losses) == []
    assert place.processes() == []


def kill(place: Collecting, process: subprocess.Popen[str], part: str) -> subprocess.Popen[str]:
    """Kill a part of the farm; returns the command, started again where the farm had given up before.

    A farm whose part dies five times in a minute gives up, and the command ends with 2.
    """
    while True:
        if process.poll() is not None:
            done = finish(process)
            assert done.returncode == 2, f"it ended before the {part} was killed:\n{done.stdout}"
            assert "Traceback" not in done.stdout
            process = place.start("--resume")
        wait_until(lambda p=process: victim(place, part) or p.poll() is not None, f"a {part} to kill", PATIENCE_S)
        chosen = victim(place, part)
        if chosen is None:
            continue
        with suppress(psutil.NoSuchProcess):  # another death may have taken it along just now
            chosen.send_signal(signal.SIGKILL)
            return process
