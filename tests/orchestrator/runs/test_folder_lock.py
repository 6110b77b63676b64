"""One process at a time works in an output folder."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from test_output import no_room

from orchestrator.runs.folder import OutputFolder, RunInUse, holder_of, lock_folder


def test_who_holds_the_lock_says_so(tmp_path: Path) -> None:
    assert holder_of(tmp_path) == "another process"
    lock = lock_folder(tmp_path)
    assert lock is not None
    assert holder_of(tmp_path).startswith(f"process {os.getpid()} on host {socket.gethostname()} (since 20")
    with pytest.raises(BlockingIOError):
        lock_folder(tmp_path)
    lock.close()
    again = lock_folder(tmp_path)
    assert again is not None
    again.close()


def test_a_folder_is_held_and_let_go_on_a_full_disk(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    with no_room():
        folder.open()
        with pytest.raises(RunInUse):
            OutputFolder(tmp_path).open()
        folder.close()
    OutputFolder(tmp_path).open()


def test_a_process_that_waits_for_a_folder_while_it_is_set_aside_does_not_work_in_the_old_one(tmp_path: Path) -> None:
    # Given a process that sets a run aside, and another that waits for the folder's lock meanwhile
    fresh, other = OutputFolder(tmp_path / "run"), OutputFolder(tmp_path / "run")
    fresh.run_id("evolve")
    fresh.open()
    with ThreadPoolExecutor(max_workers=1) as pool:
        waiting = pool.submit(other.open)
        while not any(os.readlink(f"/proc/self/fd/{fd}").endswith("run/.lock") for fd in _others(fresh)):
            pass
        assert fresh.rotate() == tmp_path / "run.1"
        # Then it is refused: the lock that it waited for has gone with the old run
        with pytest.raises(RunInUse):
            waiting.result(timeout=20)


def _others(folder: OutputFolder) -> list[str]:
    """The open descriptors but for that of the folder's lock."""
    mine = folder._lock.fileno() if folder._lock else -1
    found = []
    for fd in os.listdir("/proc/self/fd"):
        if fd != str(mine) and Path(f"/proc/self/fd/{fd}").is_symlink():
            found.append(fd)
    return found
