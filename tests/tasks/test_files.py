"""Files that appear whole, are read up to a size, and are this user's on a machine whose other users plant links."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from other_user import as_another_user, needs_root, shared_folder

from orchestrator.settings import SettingsError
from orchestrator.settings.documents import read_mapping
from tasks.common.files import (
    FileTooLarge,
    check_own_file,
    folder_atomic,
    open_atomic,
    private_folder,
    read_limited,
    remove_unfinished,
    runtime_folder,
    runtime_path,
)
from tasks.common.validation import SETTINGS_BYTES


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
    # And what a killed process left is removed when it is old enough
    with folder_atomic(path) as work:
        remove_unfinished(tmp_path, older_than_s=3600)
        assert list(tmp_path.iterdir()) == [work]
        remove_unfinished(tmp_path)
        work.mkdir()
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_others_may_write_is_not_this_user_s_own(tmp_path: Path) -> None:
    history = tmp_path / "history"
    history.touch(mode=0o600)
    check_own_file(history)
    (tmp_path / "link").symlink_to(history)
    for name, mode in (("link", 0o600), ("history", 0o620), ("history", 0o602)):
        history.chmod(mode)
        with pytest.raises(PermissionError, match="only this user may write"):
            check_own_file(tmp_path / name)


@needs_root
def test_what_another_user_has_planted_is_refused_and_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    with shared_folder() as shared:
        own = shared / "own"
        own.mkdir()
        own.chmod(0o755)  # whatever umask an earlier test of this process has left
        (own / "kept").touch()
        monkeypatch.setattr("tempfile.tempdir", str(shared))
        taken = runtime_path()

        def plant() -> None:
            (shared / "link").symlink_to(own)
            (shared / "folder").mkdir(mode=0o777)
            taken.mkdir()

        as_another_user(plant)
        for name in ("link", "folder"):
            with pytest.raises(PermissionError, match="belongs to another user"):
                private_folder(shared / name)
        with pytest.raises(PermissionError, match="belongs to another user"):
            runtime_folder()
        assert (stat.S_IMODE(own.stat().st_mode), (own / "kept").exists()) == (0o755, True)


def test_files_that_are_read_whole_have_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"#" * (SETTINGS_BYTES + 1))
    with pytest.raises(SettingsError, match="more than 1,048,576 bytes"):
        read_mapping(path)
    assert read_limited(path, SETTINGS_BYTES + 1) == path.read_bytes()
    with pytest.raises(FileTooLarge):
        read_limited(Path("/dev/zero"), 1000, pipes=True)
