"""The output folder on a disk that is full: what is there stays whole, and the reason is one line."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.output import OutputError, OutputFolder, OutputNotWritable, write_output


@contextmanager
def no_room() -> Iterator[None]:
    """No file may grow: the nearest thing to a full disk that needs no disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_has_no_room_keeps_its_old_content_and_leaves_no_half_of_the_new(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_output(path, "old")
    with no_room(), pytest.raises(OutputNotWritable, match=r"state\.json cannot be written: File too large"):
        write_output(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputNotWritable, match=r"file/report\.txt cannot be written"):
        OutputFolder(tmp_path / "file").write("report.txt", "text")


def test_a_run_is_set_aside_only_when_no_process_works_on_it(tmp_path: Path) -> None:
    running, fresh = OutputFolder(tmp_path / "run"), OutputFolder(tmp_path / "run")
    running.open()
    running.run_id("evolve")
    with pytest.raises(OutputError, match="is in use by another run"):
        fresh.rotate()
    running.close()
    (tmp_path / "run.1").mkdir()  # of an earlier time
    assert fresh.rotate() == tmp_path / "run.2"
    assert not fresh.path.exists()
    # When the new run is opened, then nothing of the old one holds it
    fresh.open()
    assert fresh.rotate() is None
