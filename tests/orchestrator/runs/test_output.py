"""The output folder: whole files on a full disk, lines that a cut leaves readable, and one process at a time."""

from __future__ import annotations

import resource
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from other_user import as_another_user, needs_root, shared_folder
from simulated_run import RUN, Driver

from orchestrator.farm.work import Scheduler
from orchestrator.runs.folder import (
    OutputError,
    OutputFolder,
    OutputNotWritable,
    append_lines,
    load_lines,
    own_run_id,
    write_output,
)
from orchestrator.runs.jobs import JOURNAL, ArtifactRequests, Journal
from tasks.records import Failure


def test_a_file_that_has_no_room_keeps_its_old_content_and_leaves_no_half_of_the_new(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_output(path, "old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # no file may grow, as on a full disk
    try:
        with pytest.raises(OutputNotWritable, match=r"state\.json cannot be written: File too large"):
            write_output(path, "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
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
    # A power cut may leave a last line of zeros with its end
    path.write_bytes(b'{"a": 1}\n' + 8 * b"\0" + b"\n")
    load_lines(path, kind, "object", repair=True)
    assert path.read_bytes() == b'{"a": 1}\n'
    path.write_bytes(b'{}\n[]\n{"a": 1}\n')
    for repair in (False, True):
        with pytest.raises(OutputError, match="line 2 is no object"):
            load_lines(path, kind, "object", repair=repair)


def test_a_journal_that_is_cut_anywhere_loses_its_last_line_at_most(tmp_path: Path) -> None:
    journal = Journal(tmp_path / JOURNAL)
    journal.add({f"key{number}": {"text": "通" * number} for number in range(3)})
    journal.add({"key0": {"text": "another"}})
    journal.add_park(7)
    again = Journal(tmp_path / JOURNAL)
    # The first result of a key stands
    assert again.results == {f"key{number}": {"text": "通" * number} for number in range(3)} and again.parked_at == [7]
    whole = (tmp_path / JOURNAL).read_bytes()
    for cut in range(len(whole) + 1):
        (tmp_path / JOURNAL).write_bytes(whole[:cut])
        kept = Journal(tmp_path / JOURNAL)
        assert list(kept.results) == [f"key{n}" for n in range(min(3, whole[:cut].count(b"\n")))]
        kept.add({"new": {}})
        assert "new" in Journal(tmp_path / JOURNAL).results


def test_a_file_that_a_worker_cannot_make_is_a_warning_and_no_failure_of_the_run(
    alone: Driver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    artifacts = ArtifactRequests(Scheduler(alone.dispatcher()), OutputFolder(tmp_path))
    artifacts.request_processor("processor.py", [0.5], "")
    artifacts.save_ready()
    requested = alone.store.redis.hkeys(f"whetstone:run:{RUN.id}:plan:jobs")
    [key] = [field.decode() for field in requested if field.startswith(b"file:")]
    error = "ValueError: no"
    alone.store.put_failure(Failure(RUN.id, "jobs", key, "processor.py", "processor", error, "t", 1, time.time(), 1))
    artifacts.wait(10)
    assert "processor.py could not be made: ValueError: no" in caplog.text
    assert alone.store.failures(RUN.id) == []
