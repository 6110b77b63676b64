"""Running a command after a step of the wall clock, without setting the clock of the machine."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

ENTER = """mount --bind "$0" /proc/stat && exec "$@" """


def after_clock_step(command: list[str], seconds: int) -> subprocess.CompletedProcess[str]:
    """Run a command that sees the time of the last boot later by so many seconds, as after such a step of the clock.

    The kernel computes that time from the wall clock (`btime` in /proc/stat), and start times in seconds of the epoch
    are computed from it.  The command runs in a mount namespace of its own, where another file is /proc/stat.
    """
    text = Path("/proc/stat").read_text()
    stepped = re.sub(r"^btime (\d+)$", lambda found: f"btime {int(found[1]) + seconds}", text, flags=re.MULTILINE)
    with tempfile.NamedTemporaryFile("w", suffix=".stat") as file:
        file.write(stepped)
        file.flush()
        enter = ["unshare", "--map-root-user", "--mount", "sh", "-c", ENTER, file.name]
        if subprocess.run([*enter, "true"], check=False, capture_output=True).returncode:
            pytest.skip("this machine allows no namespaces")
        return subprocess.run([*enter, *command], check=False, capture_output=True, text=True, timeout=120)
