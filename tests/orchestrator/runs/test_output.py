"""The output folder: whole files on a full disk, lines that a cut leaves readable, and one process at a time."""

from __future__ import annotations

import dataclasses
import os
import resource
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from other_user import as_another_user, needs_root, shared_folder

from orchestrator.runs.folder import (
    OutputError,
    OutputFolder,
    OutputNotWritable,
    RunInUse,
    append_lines,
    load_lines,
    own_run_id,
    write_output,
)
from orchestrator.runs.jobs import JOURNAL, Journal
from orchestrator.runs.status import Versions, keep_versions, read_versions
from tasks.store.store import Store


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


KIND = dict[str, Any]


def test_a_torn_line_is_dropped_from_the_file_only_to_add_to_it(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    append_lines(path, [{"a": 1}, {"b": "ü\u2028"}])
    path.write_bytes(path.read_bytes() + b'{"torn')
    before = path.read_bytes()
    assert load_lines(path, KIND, "object") == [{"a": 1}, {"b": "ü\u2028"}]
    assert path.read_bytes() == before, "reading changes nothing"
    load_lines(path, KIND, "object", repair=True)
    append_lines(path, [{"c": 3}])
    assert [*load_lines(path, KIND, "object")][-1] == {"c": 3}


def test_a_broken_line_before_the_last_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "lines.jsonl").write_bytes(b'{}\n[]\n{"a": 1}\n')
    with pytest.raises(OutputError, match="line 2 is no object"):
        load_lines(path, KIND, "object")
    assert load_lines(tmp_path / "none.jsonl", KIND, "object") == []


def test_what_was_flushed_is_there_for_the_next_start_and_the_first_result_of_a_key_stands(tmp_path: Path) -> None:
    first = Journal(tmp_path / JOURNAL)
    first.add("rollout:a", {"answers": [{"text": "Verdict: 通过"}]})
    first.add("rollout:a", {"answers": []})
    first.flush()
    first.add_park(7)
    first.add("rollout:b", {"answers": []})  # a kill comes before it is flushed
    again = Journal(tmp_path / JOURNAL)
    assert again.results == {"rollout:a": {"answers": [{"text": "Verdict: 通过"}]}}
    assert again.parked_at == [7]


def test_a_cut_anywhere_loses_the_last_line_at_most(tmp_path: Path) -> None:
    journal = Journal(tmp_path / JOURNAL)
    for number in range(3):
        journal.add(f"key{number}", {"text": "x" * number})
    journal.flush()
    whole = (tmp_path / JOURNAL).read_bytes()
    for cut in range(len(whole) + 1):
        (tmp_path / JOURNAL).write_bytes(whole[:cut])
        kept = Journal(tmp_path / JOURNAL)
        assert list(kept.results) == [f"key{n}" for n in range(whole[:cut].count(b"\n"))]
        kept.add("new", {})
        kept.flush()
        assert "new" in Journal(tmp_path / JOURNAL).results


def test_an_empty_store_is_filled_and_what_a_store_holds_stays(store: Store, tmp_path: Path) -> None:
    store.put_shared("run", "key0", {"text": "of the store"})
    journal = Journal(tmp_path / JOURNAL)
    for number in range(2):
        journal.add(f"key{number}", {"text": "of the journal"})
    journal.seed(store, "run")
    found = store.shared("run", ["key0", "key1"])
    assert [found[key]["text"] for key in ("key0", "key1")] == ["of the store", "of the journal"]


def test_a_session_with_other_versions_is_added(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    assert read_versions(output) == []
    for _ in range(2):
        keep_versions(output)
    [here] = read_versions(output)
    assert here == Versions.here() and here.packages["celery"]
    earlier = dataclasses.replace(here, code="0" * 12)
    output.write_json("versions.json", {"sessions": [dataclasses.asdict(earlier)]})
    keep_versions(output)
    assert read_versions(output) == [earlier, here]
