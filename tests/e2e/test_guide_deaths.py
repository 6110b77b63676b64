"""A guided run whose processes are killed: its artifacts are those of the reference, `guidance.json` is whole whenever
it is read, and no answered call is made again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest
from guide_folder import MISSIONS, GuideFolder
from run_folder import UNSTORED_S, finish, process_of, wait_until

from orchestrator.guide.compare import differing_places

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
# At how many moments each process is killed: one by default, ten with `make faults`.
MOMENTS = int(os.environ.get("WHETSTONE_KILL_MOMENTS", "1"))
PARTS = ("command", "gpu", "openai", "cpu", "target", "endpoint", "valkey")
# With one moment each process is killed once, all in one run.
KILLS = [(part,) * MOMENTS for part in PARTS] if MOMENTS > 1 else [PARTS]
# An answer in one of these processes is lost with it.  The others hold none.
HOLDERS = ("gpu", "openai", "target", "endpoint")
TIMEOUT_S = 600.0


@pytest.mark.parametrize("parts", KILLS, ids=lambda parts: "-".join(dict.fromkeys(parts)))
def test_no_kill_of_a_process_changes_what_comes_out(
    reference_guide: GuideFolder, guided: GuideFolder, parts: tuple[str, ...]
) -> None:
    total, kills, losses = reference_guide.answers(), [time.time()], []
    process = guided.start()
    with reading(guided) as reads:
        for moment, part in enumerate(parts):
            wanted = total * (moment + 1) // (len(parts) + 1)
            wait_until(lambda w=wanted, p=process: guided.answers() >= w or p.poll() is not None, "answers", TIMEOUT_S)
            current = kill(guided, process, part)
            if current is not process and part != "command":
                # The farm had stopped after the last kill, with all its processes: see test_collect_deaths.py.
                losses.append((kills[-2:][0], time.time()))
            process = current
            kills.append(time.time())
            if part in HOLDERS:
                losses.append((kills[-1], kills[-1]))
        done = finish(process, TIMEOUT_S)
        while done.returncode == 2:
            losses.append((kills[-2:][0], time.time()))
            done = guided.run(timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout
    assert differing_places(reference_guide.output, guided.output) == []
    print(
        f"{len(parts)} kills; guidance.json was read {len(reads):,} times; {guided.answers()} answers, {total} without"
    )
    assert len(reads) > 100 and all(reads)
    assert guided.repeated(losses) == []
    assert guided.processes() == []


def test_from_the_output_folder_and_an_empty_store_it_goes_on(
    reference_guide: GuideFolder, guided: GuideFolder
) -> None:
    """What is in the journal is not asked for again; what came just before the kill may not be in it."""
    total = reference_guide.answers()
    process = guided.start()
    wait_until(lambda: guided.answers() >= total // 2 or process.poll() is not None, "answers", TIMEOUT_S)
    killed = time.time()
    process.kill()
    process.communicate()
    wait_until(lambda: not guided.processes(), "the killed command's farm to end", 60)
    for path in guided.farm.iterdir():
        if path.name != "logs":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = guided.run(timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout
    assert differing_places(reference_guide.output, guided.output) == []
    assert guided.repeated([(killed - LOOK_S, time.time())]) == []
    assert guided.answers() < total + total // 4


LOOK_S = 1.0 + UNSTORED_S  # how often the command takes results into its journal


def kill(guided: GuideFolder, process: subprocess.Popen[str], part: str) -> subprocess.Popen[str]:
    """Kill a process; returns the command, started again when it was killed or its farm had stopped before.

    A farm in which one process dies five times in a minute stops, and the command ends with 2.
    """
    while True:
        if process.poll() is not None:
            done = finish(process)
            assert done.returncode == 2, f"it ended before the {part} was killed:\n{done.stdout}"
            assert "Traceback" not in done.stdout
            process = guided.start()
        if part == "command":
            process.kill()
            process.communicate()
            wait_until(lambda: not guided.processes(), "the killed command's farm to end", 60)
            return guided.start()
        wait_until(lambda p=process: process_of(guided, part) or p.poll() is not None, f"a {part} to kill", TIMEOUT_S)
        chosen = process_of(guided, part)
        if chosen is None:
            continue
        with suppress(psutil.NoSuchProcess):  # it may have ended with another process just now
            chosen.send_signal(signal.SIGKILL)
            return process


@contextmanager
def reading(guided: GuideFolder) -> Iterator[list[bool]]:
    """Read the guidance of both missions without pause; whether it was whole each time, and at no earlier step."""
    reads, ended = list[bool](), threading.Event()

    def read() -> None:
        steps = dict.fromkeys(MISSIONS, 0)
        while not ended.wait(0.002):
            for name, path in zip(MISSIONS, guided.guidance(), strict=True):
                try:
                    text = path.read_text()
                except FileNotFoundError:
                    continue  # the run has not begun
                try:
                    entry = json.loads(text)[name]
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
