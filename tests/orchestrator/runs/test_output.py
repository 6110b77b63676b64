"""The output folder on a disk that is full: what is there stays whole, and the reason is one line."""

from __future__ import annotations

import os
import resource
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from other_user import as_another_user, needs_root, shared_folder

from orchestrator.runs.folder import (
    OutputError,
    OutputFolder,
    OutputNotWritable,
    RunInUse,
    own_run_id,
    write_output,
)


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


@needs_root
def test_the_folder_of_another_user_is_refused_and_nothing_is_written_there() -> None:
    with shared_folder() as shared:
        as_another_user((shared / "run").mkdir)
        with pytest.raises(OutputError, match=r"run belongs to another user"):
            OutputFolder(shared / "run").open()
        assert list((shared / "run").iterdir()) == []
        # But a folder of one's own in it is one's own
        OutputFolder(shared / "run" / "own").open()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputNotWritable, match=r"file/report\.txt cannot be written"):
        OutputFolder(tmp_path / "file").write("report.txt", "text")


def test_a_run_is_set_aside_only_when_no_process_works_on_it(tmp_path: Path) -> None:
    running, fresh = OutputFolder(tmp_path / "run"), OutputFolder(tmp_path / "run")
    running.open()
    running.run_id("evolve")
    host = socket.gethostname()
    with pytest.raises(RunInUse, match=rf"run is in use: process {os.getpid()} on host {host} \(since 20.*\) works"):
        fresh.rotate()
    assert not (tmp_path / "run.1").exists()
    running.close()
    (tmp_path / "run.1").mkdir()  # of an earlier time
    assert fresh.rotate() == tmp_path / "run.2"
    # Then the new folder is open, and nothing of the old one holds it
    with pytest.raises(RunInUse):
        running.open()
    assert fresh.rotate() is None


def test_a_folder_that_was_moved_keeps_its_run_and_a_copy_is_refused(tmp_path: Path) -> None:
    original = OutputFolder(tmp_path / "run")
    run_id = original.run_id("evolve")
    # When the folder is moved, then its run is the same
    original.path.rename(tmp_path / "moved")
    moved = OutputFolder(tmp_path / "moved")
    assert moved.run_id("evolve") == run_id
    # When it is copied, then nothing is done to the copy
    shutil.copytree(moved.path, tmp_path / "copy")
    for refused in (lambda: own_run_id(tmp_path / "copy"), lambda: OutputFolder(tmp_path / "copy").run_id("evolve")):
        with pytest.raises(OutputError, match=rf"copy is a copy of {moved.path}"):
            refused()
    # And a link to the folder is no copy
    (tmp_path / "link").symlink_to(moved.path)
    assert OutputFolder(tmp_path / "link").run_id("evolve") == run_id
