"""Functions that settings name, in modules and in files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tasks.common.named import absolute, load_named


def test_two_files_of_one_stem_are_two_modules_and_each_is_run_once(tmp_path: Path) -> None:
    for folder, value in (("one", 1), ("two", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "judges.py").write_text(f"def value():\n    return {value}\n")
    names = [f"{tmp_path}/{folder}/judges.py:value" for folder in ("one", "two")]
    assert [load_named(name, "none")() for name in names] == [1, 2]
    assert load_named(names[0], "none") is load_named(names[0], "none")


def test_a_module_of_the_working_directory_is_found_from_a_console_script_and_from_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "judges_here.py").write_text("def right():\n    return 7\n")
    monkeypatch.chdir(tmp_path)
    assert "" not in sys.path and str(tmp_path) not in sys.path
    assert load_named("judges_here:right", "none")() == 7
    assert absolute("judges_here:right") == f"{tmp_path}/judges_here.py:right"
    assert absolute("json:loads") == "json:loads"


def test_a_file_that_fails_is_run_again_when_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "judges.py"
    path.write_text("raise LookupError('the table is missing')\n")
    with pytest.raises(LookupError, match="the table is missing"):
        load_named(f"{path}:judge", "none")
    path.write_text("class Judges:\n    judge = print\n")
    assert load_named(f"{path}:Judges.judge", "none") is print


def test_a_module_may_import_what_lies_beside_it_or_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_mine").mkdir()
    (tmp_path / "beside_us.py").write_text("NUMBER = 7\n")
    for name, text in (
        ("__init__", ""),
        ("near", "NUMBER = 1\n"),
        ("far", "from .near import NUMBER\nimport beside_us\n"),
    ):
        (tmp_path / "beside_mine" / f"{name}.py").write_text(text)
    with (tmp_path / "beside_mine" / "far.py").open("a") as file:
        file.write("def right():\n    return NUMBER + beside_us.NUMBER\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert absolute("beside_mine.far:right") == f"{tmp_path}/beside_mine/far.py:right"
    assert load_named("beside_mine.far:right", "none")() == 8
