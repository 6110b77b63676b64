"""A whole evolution on SGLang whose server is killed in mid-batch: it ends where an undisturbed one does.

The server is deterministic, so the two can be held against each other to the last bit; it writes down what it was
asked and what it has answered.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import COMMAND, SAMPLE

from workers.sglang.gpus import GPU_VARIABLE, SHARED

pytestmark = pytest.mark.gpu

ROOT = SAMPLE.parents[2]
ARGUMENTS = (
    "--attention-backend triton --sampling-backend pytorch --mem-fraction-static 0.2 --max-total-tokens 100000 "
    "--enable-deterministic-inference"
)
WRITING_DOWN = "--log-requests --log-requests-level 3 --log-requests-format json --log-requests-target"
SETTINGS = {
    "DATA_PATH": str(SAMPLE),
    "TRAINING": "0-15",
    "VALIDATION": "16",
    "TEST": "",
    "TARGET_ENGINE": "sglang",
    "DEVICE": "cuda",
    "TARGET_MAX_NEW_TOKENS": "256",
    "POPULATION_SIZE": "6",
    "NGEN": "2",
    "SEED": "5",
}
LIMIT_S = 280.0
POLL_S = 0.01
ENOUGH, OPEN = 40, 8  # answered, and asked without an answer: then the server is killed


@dataclass
class Evolution:
    """One run in a folder of its own, on a farm of its own."""

    folder: Path
    model: str
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def said(self) -> Path:
        return self.folder / "said.txt"

    def start(self) -> None:
        settings = {
            **SETTINGS,
            "TARGET_MODEL": self.model,
            "SGLANG_COMMAND": f"{COMMAND} {WRITING_DOWN} {self.folder / 'asked'}",
            "SGLANG_ARGS": ARGUMENTS,
            "FARM_DIR": str(self.folder / "farm"),
        }
        sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        config = ["--config", "configs/embedded.config", "--output", str(self.folder / "output"), "--plain"]
        command = [sys.executable, "-m", "orchestrator", "evolve", *config, *sets]
        environment = {**os.environ, "WHETSTONE_CLUSTERS": str(self.folder.parent / "clusters")}
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT)

    def end(self) -> str:
        """Wait for its end; the last state that it wrote."""
        assert self.process is not None
        assert self.process.wait(LIMIT_S) == 0, self.said.read_text()[-4000:]
        return (self.folder / "output" / "evolution_state.json").read_text()

    def events(self) -> Iterator[dict[str, Any]]:
        """What its servers have written down, whole lines only."""
        for path in sorted((self.folder / "asked").glob("*.log*")):
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    yield json.loads(line.partition("] ")[2])

    def asked_and_answered(self) -> tuple[Counter[str], Counter[str]]:
        """How often each request was taken in, and how often answered: a question in the words of one individual."""
        found: dict[str, Counter[str]] = {"request.received": Counter(), "request.finished": Counter()}
        for event in self.events():
            asked = event["obj"]
            if steering := asked["sampling_params"].get("custom_params"):
                found[event["event"]][json.dumps([asked["input_ids"], steering["deltas"]])] += 1
        return found["request.received"], found["request.finished"]

    def scheduler(self) -> psutil.Process:
        """The part of the server that computes."""
        assert self.process is not None
        family = psutil.Process(self.process.pid).children(recursive=True)
        [found] = [p for p in family if "sglang::scheduler" in " ".join(p.cmdline())]
        return found


@pytest.fixture
def evolutions(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Evolution, Evolution]]:
    monkeypatch.setenv(GPU_VARIABLE, SHARED)
    found = []
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
        found.append(Evolution(tmp_path / name, model))
    yield found[0], found[1]
    for evolution in found:
        if evolution.process is not None and evolution.process.poll() is None:
            evolution.process.terminate()
            evolution.process.wait(60)


@pytest.mark.timeout(700)
def test_an_evolution_whose_server_is_killed_ends_as_if_nothing_had_happened(
    evolutions: tuple[Evolution, Evolution],
) -> None:
    # Given a run that nothing happened to
    undisturbed, killed = evolutions
    undisturbed.start()
    expected = undisturbed.end()
    _, answered = undisturbed.asked_and_answered()
    # When the server of another is killed while it answers
    killed.start()
    deadline, pause = time.monotonic() + LIMIT_S, threading.Event()
    while True:
        asked, before = killed.asked_and_answered()
        if before.total() >= ENOUGH and asked.total() - before.total() >= OPEN:
            break
        assert time.monotonic() < deadline, "the server was never in mid-batch"
        assert killed.process is not None and killed.process.poll() is None, killed.said.read_text()[-4000:]
        pause.wait(POLL_S)
    killed.scheduler().kill()
    # Then it is brought back, the run ends in the same state, and no answer was given twice or is missing
    assert killed.end() == expected
    asked, after = killed.asked_and_answered()
    print(f"{before.total()} of {after.total()} answered when the server was killed, {asked.total()} asked for")
    assert asked.total() > after.total()  # what was open had to be asked again
    assert after == answered
    assert set(after.values()) == {1}
