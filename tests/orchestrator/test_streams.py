"""Standard output that is closed, full or read no further, and Ctrl+C while a command is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator import exit_status
from orchestrator.streams import LossyFile

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "orchestrator"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe whose reader has ended."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.fixture
def outputs(tmp_path: Path) -> str:
    """A folder with a run."""
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "run.json").write_text(json.dumps({"id": "demo-1", "kind": "evolve"}))
    return str(tmp_path)


def test_a_list_whose_reader_has_ended_ends_with_the_status_of_a_broken_pipe(outputs: str, unread: int) -> None:
    done = subprocess.run(
        [*COMMAND, "runs", outputs], stdout=unread, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False
    )
    assert (done.returncode, done.stderr) == (exit_status.OUTPUT_CLOSED, b"")


@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_a_list_that_cannot_be_printed_says_so(outputs: str, redirection: str, reason: str) -> None:
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, "runs", outputs]
    done = subprocess.run(command, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False, text=True)
    assert done.stderr == f"orchestrator: standard output cannot be written: {reason}\n"
    assert done.returncode == exit_status.BROKEN


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", ">&- 2>&- <&-"])
def test_the_status_of_an_error_that_cannot_be_printed_stays(tmp_path: Path, redirection: str) -> None:
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, "status", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, env=ENVIRONMENT, check=False, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (exit_status.WRONG, "")


def test_an_error_whose_reader_has_ended_has_its_status(tmp_path: Path, unread: int) -> None:
    done = subprocess.run(
        [*COMMAND, "status", str(tmp_path)], stdout=unread, stderr=unread, env=ENVIRONMENT, check=False
    )
    assert done.returncode == exit_status.WRONG


def test_a_pipe_that_another_process_made_non_blocking_takes_everything() -> None:
    # Given a pipe that is full after 64 KiB, and whose reader begins later
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    text, taken = b"0123456789abcdef" * 32_768, bytearray()

    def read() -> None:
        while part := os.read(reading, 4096):
            taken.extend(part)

    reader = threading.Thread(target=read)
    file = LossyFile(writing)
    # When more is written than it holds
    rest = text
    while rest:
        rest = rest[file.write(rest) :]
        if not reader.is_alive() and rest:
            reader.start()
    os.close(writing)
    reader.join()
    os.close(reading)
    # Then nothing is lost
    assert bytes(taken) == text and file.lost is None


# Ctrl+C when this module is about to be imported; then the command as a person types it.
INTERRUPTED_IMPORT = """
import os, runpy, signal, sys
name, *sys.argv[1:] = sys.argv[1:]
sys.addaudithook(lambda event, about: event == "import" and about[0] == name and os.kill(os.getpid(), signal.SIGINT))
runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("module", ["argparse", "orchestrator.farm.connection", "orchestrator.settings", "celery"])
def test_an_interruption_while_modules_are_imported_prints_no_traceback(module: str) -> None:
    command = ["env", "--default-signal=SIGINT", sys.executable, "-c", INTERRUPTED_IMPORT, module, "workers"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, env=ENVIRONMENT, check=False, text=True)
    assert done.returncode in (-2, exit_status.INTERRUPTED)
    assert done.stderr in ("", "orchestrator: interrupted\n")
