"""A wall clock of their own for the processes of one run, which can be stepped; the machine's clock is not touched."""

from __future__ import annotations

import functools
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_name("clock_step.c")


@functools.cache
def library() -> Path:
    """The compiled `clock_step.c`.  Raises: OSError, CalledProcessError without a C compiler."""
    built = Path(tempfile.mkdtemp(prefix="chaos-clock-")) / "clock_step.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(built), str(SOURCE), "-ldl"], check=True)
    return built


class Clock:
    """How far the wall clock of some processes is off, in a file that all of them read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.write_bytes(struct.pack("q", 0))

    def environment(self) -> Mapping[str, str]:
        """Of the processes that have this clock, and of those that they start."""
        return {"LD_PRELOAD": str(library()), "CHAOS_CLOCK": str(self.path)}

    def step(self, seconds: float) -> None:
        """Set the clock `seconds` off the machine's, at once."""
        with self.path.open("r+b") as file:
            file.write(struct.pack("q", int(seconds * 1e9)))
