"""Printed commands: a shell reads the words that were meant."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.shell import command_line

NAMES = [
    "plain",
    "with space",
    "it's",
    "$(reboot)",
    "a;b",
    "-x",
    "*",
    "line\nend",
    "\x1b[31mred",
    "ü",
    "\u202eabc",
    "\\n'\t",
]


@pytest.mark.parametrize("name", [*NAMES, os.fsdecode(b"not \xff UTF-8")])
def test_a_shell_reads_the_path_that_was_meant(name: str) -> None:
    line = command_line("retry", Path(name))
    assert line.encode("ascii", "ignore").decode().isprintable()
    read = subprocess.run(
        ["bash", "-c", "orchestrator() { printf '%s\\0' \"$@\"; }; eval \"$1\"", "bash", line],
        check=True, capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8"},
    ).stdout  # fmt: skip
    assert read.split(b"\0")[:-1] == [b"retry", os.fsencode(f"./{name}" if name.startswith("-") else name)]


def test_a_plain_word_stays_as_it_is() -> None:
    assert (
        command_line("retry", Path("outputs/gpu"), "--set", "NGEN=4") == "orchestrator retry outputs/gpu --set NGEN=4"
    )
