"""A terminal: commands of `orchestrator`, typed while a run is at work."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest
from simulated_evolve import COMMAND, ROOT, evolve_command

from orchestrator.cli import main

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
SMALL = {
    "POPULATION_SIZE": "3", "NGEN": "2", "CXPB": "0", "MUTPB": "1", "ELITISM_SIZE": "1",
    "DATA_PATH": "configs/data/sample.jsonl", "TRAINING": "0-1", "VALIDATION": "", "TEST": "",
    "EVALUATION_CACHE": "y",
}  # fmt: skip
CHILDREN = ("g0_child0_mut", "g0_child1_mut")


def run_here(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Run a command of `orchestrator` in this process; returns its status, and all that it prints."""
    status = main([*map(str, arguments)])
    said = capsys.readouterr()
    return status, said.out + said.err


class Terminal:
    """Somebody who types commands, and the run's folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self.output = folder / "output"
        self.url = url
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.processes.append(process)
        return process

    def run(self, *arguments: str) -> tuple[int, str]:
        return ended(self.start(*COMMAND, *arguments))

    def shell(self, script: str, *command: str) -> tuple[int, str]:
        """Run a script whose arguments are a command; returns its status, and all that is printed."""
        done = subprocess.run(
            ["sh", "-c", script, "sh", *command], cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    def execute(self, *command: str) -> NoReturn:
        """Become this command."""
        os.chdir(ROOT)
        os.execve(command[0], command, ENVIRONMENT)

    def evolve(self, *arguments: str, **options: str) -> subprocess.Popen[str]:
        return self.start(*self.evolve_command(**options), *arguments)

    def evolve_command(self, **options: str) -> list[str]:
        return evolve_command(self.url, self.output, {**SMALL, **options})

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=120)
    return process.returncode, said
