"""Folders of this user, on a machine whose other users plant links and take names."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from other_user import as_another_user, needs_root, shared_folder

from tasks.common.files import check_own_file, keep_private, private_folder, runtime_folder, runtime_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_folder_is_made_with_its_parents_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert mode(private_folder(tmp_path / "a" / "b")) == 0o700
    finally:
        os.umask(before)


def test_a_file_that_others_may_write_is_not_this_user_s_own(tmp_path: Path) -> None:
    history = tmp_path / "history"
    check_own_file(history)  # nothing is there yet
    history.touch(mode=0o600)
    check_own_file(history)
    (tmp_path / "link").symlink_to(history)
    with pytest.raises(PermissionError, match="only this user may write"):
        check_own_file(tmp_path / "link")
    for open_to in (0o620, 0o602):
        history.chmod(open_to)
        with pytest.raises(PermissionError, match="only this user may write"):
            check_own_file(history)


@needs_root
def test_what_another_user_has_planted_is_refused_and_not_touched() -> None:
    with shared_folder() as shared:
        own = shared / "own"
        own.mkdir()
        own.chmod(0o755)  # whatever umask an earlier test of this process has left
        (own / "kept").touch()

        def plant() -> None:
            (shared / "link").symlink_to(own)
            (shared / "folder").mkdir(mode=0o777)

        as_another_user(plant)
        for name in ("link", "folder"):
            with pytest.raises(PermissionError, match="belongs to another user"):
                private_folder(shared / name)
        assert (mode(own), (own / "kept").exists()) == (0o755, True)


@needs_root
def test_a_runtime_folder_that_another_user_has_taken_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with shared_folder() as shared:
        monkeypatch.setattr("tempfile.tempdir", str(shared))
        as_another_user(runtime_path().mkdir)
        with pytest.raises(PermissionError, match="belongs to another user"):
            runtime_folder()


def test_files_of_a_process_that_keeps_them_private_are_readable_by_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        keep_private()
        (tmp_path / "file").touch()
        (tmp_path / "folder").mkdir()
    finally:
        os.umask(before)
    assert (mode(tmp_path / "file"), mode(tmp_path / "folder")) == (0o600, 0o700)
