"""Files and folders appear whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tasks.files import folder_atomic, open_atomic, read_limited, remove_unfinished


def test_what_is_written_piece_by_piece_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "verdicts.jsonl"
    with open_atomic(path) as out:
        out.write(b"one\n")
        assert not path.exists()
        out.write(b"two\n")
    assert path.read_text() == "one\ntwo\n"
    with pytest.raises(KeyboardInterrupt), open_atomic(path) as out:
        out.write(b"three\n")
        raise KeyboardInterrupt
    assert path.read_text() == "one\ntwo\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_pipe_and_a_device_are_read_only_where_they_may_be(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="it is no regular file"):
            read_limited(path, 10)
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "w") as out:
        out.write("secret")
        out.close()
        assert read_limited(Path(f"/dev/fd/{reading}"), 10, pipes=True) == b"secret"


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with pytest.raises(KeyboardInterrupt), folder_atomic(path) as work:
        (work / "weights").write_text("half of th")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with folder_atomic(path) as work:
        (work / "weights").write_text("all of them")
        assert not path.exists()
    assert list(tmp_path.iterdir()) == [path]


def test_of_two_who_make_the_same_folder_the_first_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with folder_atomic(path) as second:
        (second / "weights").write_text("second")
        with folder_atomic(path) as first:
            (first / "weights").write_text("first")
    assert (path / "weights").read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_is_removed_when_it_is_old_enough(tmp_path: Path) -> None:
    with folder_atomic(tmp_path / "model"):
        remove_unfinished(tmp_path, older_than_s=3600)
        [unfinished] = tmp_path.iterdir()
        remove_unfinished(tmp_path)
        assert not unfinished.exists()
        unfinished.mkdir()
