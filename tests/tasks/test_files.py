"""Files and folders appear whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.common.files import folder_atomic, open_atomic, remove_unfinished


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


def test_what_a_killed_process_left_is_removed_when_it_is_old_enough(tmp_path: Path) -> None:
    with folder_atomic(tmp_path / "model"):
        remove_unfinished(tmp_path, older_than_s=3600)
        [unfinished] = tmp_path.iterdir()
        remove_unfinished(tmp_path)
        assert not unfinished.exists()
        unfinished.mkdir()
