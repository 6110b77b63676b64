"""Functions that settings name, in modules and in files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tasks.common.named import absolute, load_named


def test_a_module_of_the_working_directory_is_found_from_a_console_script_and_from_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a module, and one of a package, which imports it
    (tmp_path / "judges_here.py").write_text("def right():\n    return 7\n")
    package = tmp_path / "package_here"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "far.py").write_text("import judges_here\ndef right():\n    return judges_here.right() + 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert "" not in sys.path and str(tmp_path) not in sys.path
    assert [load_named(name, "none")() for name in ("judges_here:right", "package_here.far:right")] == [7, 8]
    assert absolute("judges_here:right") == f"{tmp_path}/judges_here.py:right"
    assert absolute("package_here.far:right") == f"{package}/far.py:right"
