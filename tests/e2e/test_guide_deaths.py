"""A guided run whose processes are killed: its artifacts are those of the reference, `guidance.json` is whole whenever
it is read, and no answered call is made again."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from equal_runs import artifacts_of
from guide_folder import MISSIONS, GuideFolder
from killing import kill_command, kill_each, kill_moments, wait_for_answers
from run_folder import UNSTORED_S

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
MOMENTS = kill_moments(1)
PARTS = ("command", "gpu", "openai", "cpu", "target", "endpoint", "valkey")
# With one moment each process is killed once, all in one run.
KILLS = [(part,) * MOMENTS for part in PARTS] if MOMENTS > 1 else [PARTS]
TIMEOUT_S = 600.0


@pytest.mark.parametrize("parts", KILLS, ids=lambda parts: "-".join(dict.fromkeys(parts)))
def test_no_kill_of_a_process_changes_what_comes_out(
    reference_guide: GuideFolder, guided: GuideFolder, parts: tuple[str, ...]
) -> None:
    total = reference_guide.answers()
    with reading(guided) as reads:
        killed = kill_each(guided, total, parts, TIMEOUT_S)
    assert killed.done.returncode == 0, killed.done.stdout
    assert artifacts_of(guided.output) == artifacts_of(reference_guide.output)
    print(
        f"{len(parts)} kills; guidance.json was read {len(reads):,} times; {guided.answers()} answers, {total} without"
    )
    assert len(reads) > 100 and all(reads)
    assert guided.repeated(killed.losses) == []
    assert guided.processes() == []


def test_from_the_output_folder_and_an_empty_store_it_goes_on(
    reference_guide: GuideFolder, guided: GuideFolder
) -> None:
    """What is in the journal is not asked for again; what came just before the kill may not be in it."""
    total = reference_guide.answers()
    process = guided.start()
    wait_for_answers(guided, process, total // 2, TIMEOUT_S)
    killed = time.time()
    kill_command(guided, process)
    for path in guided.farm.iterdir():
        if path.name != "logs":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = guided.run(timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout
    assert artifacts_of(guided.output) == artifacts_of(reference_guide.output)
    assert guided.repeated([(killed - LOOK_S, time.time())]) == []
    assert guided.answers() < total + total // 4


LOOK_S = 1.0 + UNSTORED_S  # how often the command takes results into its journal


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
