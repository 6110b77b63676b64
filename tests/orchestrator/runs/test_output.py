"""The output folder: whole files on a full disk, lines that a cut leaves readable, and one process at a time."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from other_user import as_another_user, needs_root, shared_folder
from simulated_run import RUN, Driver

from orchestrator.farm.work import Scheduler
from orchestrator.runs import folder as folder_module
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
from orchestrator.runs.jobs import JOURNAL, ArtifactRequests, Journal
from tasks.common.files import open_regular
from tasks.records import Failure


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
    # and a folder that cannot be made is named
    with pytest.raises(OutputNotWritable, match=r"state\.json/report\.txt cannot be written"):
        OutputFolder(path).write("report.txt", "text")


@needs_root
def test_the_folder_of_another_user_is_refused_and_nothing_is_written_there() -> None:
    with shared_folder() as shared:
        as_another_user((shared / "run").mkdir)
        with pytest.raises(OutputError, match=r"run belongs to another user"):
            OutputFolder(shared / "run").open()
        assert list((shared / "run").iterdir()) == []
        # But a folder of one's own in it is one's own
        OutputFolder(shared / "run" / "own").open()


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


def test_a_folder_that_is_set_aside_while_another_process_opens_it_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = OutputFolder(tmp_path / "run")
    fresh.run_id("evolve")

    def opened(*given: Any) -> Any:
        lock = open_regular(*given)
        monkeypatch.undo()
        assert fresh.rotate() == tmp_path / "run.1"
        return lock

    monkeypatch.setattr(folder_module, "open_regular", opened)
    # The lock that it had opened has gone with the old run
    with pytest.raises(RunInUse):
        OutputFolder(tmp_path / "run").open()


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


def test_a_torn_line_is_dropped_from_the_file_only_to_add_to_it_and_another_broken_one_is_named(tmp_path: Path) -> None:
    path, kind = tmp_path / "lines.jsonl", dict[str, Any]
    assert load_lines(path, kind, "object") == []
    append_lines(path, [{"a": 1}, {"b": "ü\u2028"}])
    path.write_bytes(before := path.read_bytes() + b'{"torn')
    assert load_lines(path, kind, "object") == [{"a": 1}, {"b": "ü\u2028"}]
    assert path.read_bytes() == before, "reading changes nothing"
    load_lines(path, kind, "object", repair=True)
    append_lines(path, [{"c": 3}])
    assert [*load_lines(path, kind, "object")][-1] == {"c": 3}
    path.write_bytes(b'{}\n[]\n{"a": 1}\n')
    with pytest.raises(OutputError, match="line 2 is no object"):
        load_lines(path, kind, "object")


def test_what_was_added_is_there_for_the_next_start_and_the_first_result_of_a_key_stands(tmp_path: Path) -> None:
    first = Journal(tmp_path / JOURNAL)
    first.add({"rollout:a": {"answers": [{"text": "Verdict: 通过"}]}})
    first.add({"rollout:a": {"answers": []}})
    first.add_park(7)
    again = Journal(tmp_path / JOURNAL)
    assert again.results == {"rollout:a": {"answers": [{"text": "Verdict: 通过"}]}}
    assert again.parked_at == [7]


def test_a_cut_anywhere_loses_the_last_line_at_most(tmp_path: Path) -> None:
    journal = Journal(tmp_path / JOURNAL)
    journal.add({f"key{number}": {"text": "x" * number} for number in range(3)})
    whole = (tmp_path / JOURNAL).read_bytes()
    for cut in range(len(whole) + 1):
        (tmp_path / JOURNAL).write_bytes(whole[:cut])
        kept = Journal(tmp_path / JOURNAL)
        assert list(kept.results) == [f"key{n}" for n in range(whole[:cut].count(b"\n"))]
        kept.add({"new": {}})
        assert "new" in Journal(tmp_path / JOURNAL).results


def test_a_file_that_a_worker_made_is_written_and_one_that_it_cannot_make_is_a_warning_and_no_failure_of_the_run(
    alone: Driver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    artifacts = ArtifactRequests(Scheduler(alone.dispatcher()), OutputFolder(tmp_path))
    for name in ("made.py", "refused.py"):
        artifacts.request_processor(name, [0.5], "")
    artifacts.save_ready()
    assert list(tmp_path.iterdir()) == []
    requested = [field.decode() for field in alone.store.redis.hkeys(f"whetstone:run:{RUN.id}:plan:jobs")]
    made, refused = sorted(
        (one for one in requested if one.startswith("file:")), key=lambda key: alone.store.job_spec(RUN.id, key).label
    )
    alone.store.put_file(RUN.id, made, b"made")
    alone.store.put_shared(RUN.id, made, {"file": "made.py"})
    failure = Failure(RUN.id, "jobs", refused, "refused.py", "processor", "ValueError: no", "t", 1, time.time(), 1)
    alone.store.put_failure(failure)
    artifacts.wait(10)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("made.py", b"made")]
    assert "refused.py could not be made: ValueError: no" in caplog.text
    assert alone.store.failures(RUN.id) == []
