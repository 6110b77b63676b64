"""Rows to judge through a pipe."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from orchestrator.runs.piped_rows import regular_file
from tasks import limits
from tasks.dataset import DatasetError


def test_rows_through_a_pipe_are_limited_before_they_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a limit that a test can reach, and a pipe that never ends
    monkeypatch.setattr(limits, "PIPED_ROWS_BYTES", 4 * limits.MIB)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(DatasetError, match="/dev/zero: more than 4,194,304 bytes"), regular_file(Path("/dev/zero")):
        pass
    # then nothing stays, and fewer rows pass
    assert not list(tmp_path.iterdir())
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cp", "/dev/stdin", str(tmp_path / "pipe")], stdin=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"rows")
        writer.stdin.close()
        with regular_file(tmp_path / "pipe") as copy:
            assert copy.read_bytes() == b"rows"
