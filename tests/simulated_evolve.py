"""The command `orchestrator evolve`, on a farm of real workers whose stages are simulated."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "orchestrator"]


def evolve_command(url: str, output: Path, options: Mapping[str, str]) -> list[str]:
    """A run on the farm at `url`: the embedded configuration with other options, by name."""
    sets = [part for name, value in {"FARM": url, **options}.items() for part in ("--set", f"{name}={value}")]
    config = str(ROOT / "configs" / "embedded.config")
    return [*COMMAND, "evolve", "--config", config, "--output", str(output), *sets]


def start_evolve(url: str, output: Path, options: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        evolve_command(url, output, options), cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for the command's end. Returns: what it printed. Raises: AssertionError when it failed."""
    printed, _ = process.communicate(timeout=240)
    assert process.returncode == 0, printed
    return printed
