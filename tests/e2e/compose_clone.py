"""A clone whose farm runs in containers.  The tests that use it build images: `make compose` runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from run_folder import ROOT, SMALL, environment

needs_engine = pytest.mark.skipif("WHETSTONE_COMPOSE" not in os.environ, reason="`make compose` runs it, with Docker")


def small_run(output: str, **options: str) -> list[str]:
    """The arguments of a small evolution, changed by `options`; paths begin at the clone, also in a container."""
    chosen = {**SMALL, "DATA_PATH": "configs/data/sample.jsonl", **options}
    return ["evolve", "--output", output, *(part for item in chosen.items() for part in ("--set", "=".join(item)))]


def compose_command() -> list[str]:
    """The command of Compose v2, or docker-compose."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    return ["docker-compose"]


@dataclass(frozen=True)
class ComposeClone:
    """A fresh clone in a folder of its own, whose name is that of its containers."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> ComposeClone:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        return cls(folder)

    def __call__(self, *arguments: str, timeout: float = 1800) -> str:
        """What a command of Compose prints.  Fails the test when the command fails."""
        status, printed = self.compose(*arguments, timeout=timeout)
        assert status == 0, printed
        return printed

    def compose(self, *arguments: str, timeout: float = 1800) -> tuple[int, str]:
        # Of the environment of the tests a new user has nothing.
        return finished([*compose_command(), *arguments], self.folder, clean_environment(), timeout)

    def orchestrator(self, *arguments: str) -> tuple[int, str]:
        """The command on this machine, with the code of the clone."""
        command = [sys.executable, "-m", "orchestrator", *arguments]
        return finished(command, self.folder, {**clean_environment(), "PYTHONPATH": str(self.folder)}, 900)

    def orchestrator_in_container(self, *arguments: str) -> tuple[int, str]:
        return self.compose("run", "--rm", "-T", "orchestrator", *arguments)

    def secret(self, name: str) -> str:
        [path] = (self.folder / "secrets").glob(f"*/{name}")
        return path.read_text().strip()

    def flower(self) -> str:
        return f"http://{self('port', 'flower', '5555').strip()}"

    def state(self, output: str) -> str:
        return (self.folder / output / "evolution_state.json").read_text()

    def containers(self) -> dict[str, dict[str, Any]]:
        """What the engine says of each container of the clone, by its service."""
        wanted = f"label=com.docker.compose.project.working_dir={self.folder}"
        listed = ["docker", "ps", "--all", "--quiet", "--filter", wanted]
        ids = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
        shown = subprocess.run(["docker", "inspect", *ids], capture_output=True, text=True, check=True).stdout
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in json.loads(shown)}

    def remove(self) -> None:
        self.compose("down", "--volumes", "--timeout", "20")
        shutil.rmtree(self.folder, ignore_errors=True)


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in environment().items() if not name.startswith(("WHETSTONE_", "COMPOSE_"))}


def finished(command: list[str], folder: Path, variables: dict[str, str], timeout: float) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        timeout=timeout,
    )  # fmt: skip
    return done.returncode, done.stdout
