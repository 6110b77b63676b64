"""A terminal: commands of `orchestrator`, typed while a run is at work, and a program that asks for answers."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from collections.abc import Sequence
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


class TypedTerminal:
    """Somebody at a program in a real terminal.  `seen` is what has appeared since the last key."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder,
            env={**ENVIRONMENT, **os.environ, "TERM": "dumb", "INPUTRC": "/dev/null"},
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""

    def press(self, keys: str) -> None:
        self.seen = ""
        os.write(self.ours, keys.encode())

    def read(self, again: str = "") -> bool:
        """Wait for more.  Returns: whether there is any before the program ends.

        `again` is pressed after each 5 s of silence: a key that comes just before Python's readline waits for keys is
        only noticed with the next one.
        """
        for _ in range(12):
            if select.select([self.ours], [], [], 5)[0]:
                break
            os.write(self.ours, again.encode())
        else:
            raise AssertionError(f"nothing after {self.seen!r}")
        try:
            piece = os.read(self.ours, 4096).decode("utf-8", "replace")
        except OSError:  # how Linux reports that the other side is closed
            return False
        self.seen += piece.replace("\r\n", "\n")
        return bool(piece)

    def wait_for(self, text: str) -> None:
        while text not in self.seen:
            assert self.read(), f"no {text!r} in {self.seen!r}, and the program has ended"

    def answer(self, question: str, text: str) -> None:
        """Type an answer once the question is there."""
        self.wait_for(question)
        self.press(text + "\n")

    def wait_end(self, again: str = "") -> int:
        """Press these keys, also again, until the program ends.  Returns: its exit status."""
        self.press(again)
        while self.read(again):
            pass
        os.close(self.ours)
        return self.process.wait(60)
