"""Standard output that is closed, full or read no further."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import exit_status

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "orchestrator"]


def ended(redirection: str, *words: str) -> tuple[int, str]:
    """The status of a command behind which is a redirection, and what it said on standard error."""
    script = f'set -o pipefail; "$@" {redirection}'
    done = subprocess.run(["bash", "-c", script, "bash", *COMMAND, *words], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("redirection", "status"),
    [("| true", exit_status.OUTPUT_CLOSED), (">/dev/full", exit_status.BROKEN), (">&- 2>&- <&-", exit_status.DONE)],
)
def test_a_list_that_cannot_be_printed_ends_without_a_traceback(tmp_path: Path, redirection: str, status: int) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "run.json").write_text(json.dumps({"id": "demo-1", "kind": "evolve"}))
    found, said = ended(redirection, "runs", str(tmp_path))
    assert found == status and "Traceback" not in said


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", ">&- 2>&- <&-"])
def test_the_status_of_an_error_that_cannot_be_printed_stays(tmp_path: Path, redirection: str) -> None:
    assert ended(redirection, "status", str(tmp_path)) == (exit_status.WRONG, "")
