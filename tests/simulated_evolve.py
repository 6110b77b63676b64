"""The command `orchestrator evolve`, on a farm of real workers whose stages are simulated."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "embedded.config"


def start_evolve(url: str, output: Path, options: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a run on the farm at `url`: the embedded configuration with other options, by name."""
    chosen = {"FARM": url, **options}
    sets = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "orchestrator", "evolve", "--config", str(CONFIG), "--output", str(output), *sets]
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for the command's end. Returns: what it printed. Raises: AssertionError when it failed."""
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0, printed
    return printed
