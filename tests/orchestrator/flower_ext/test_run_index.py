"""Flower's index of runs: a status is read again when one of the files has changed that its kind names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.flower_ext.run_index import index_runs
from orchestrator.output import OutputFolder
from orchestrator.runs import kinds
from orchestrator.runs.kinds import Figures, RunProgress
from tasks.store.store import Store


class CountKind:
    """A kind of runs whose progress is a number in a file of its own."""

    files = ("count",)

    def progress(self, folder: Path) -> RunProgress:
        return RunProgress("steps", int((folder / "count").read_text()), None, is_finished=False)

    def figure_lines(self, figures: Figures) -> tuple[tuple[str, str], ...]:
        return ()

    def summary(self, figures: Figures) -> str:
        return ""

    def farm_address(self, folder: Path) -> str:
        raise NotImplementedError

    def open_farm(self, folder: Path, notify: Any) -> AbstractContextManager[Any]:
        raise NotImplementedError

    def resume(self, folder: Path, overrides: Any, only: Any, *, plain: bool) -> int:
        raise NotImplementedError


KIND = CountKind()


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(kinds.MODULES, "count", __name__)
    yield


@pytest.mark.usefixtures("count")
def test_a_status_is_read_again_when_a_file_of_its_kind_has_changed(tmp_path: Path, store: Store) -> None:
    run = OutputFolder(tmp_path / "run").run_id("count")
    for steps in (1, 2):
        OutputFolder(tmp_path / "run").write("count", json.dumps(steps))
        status = index_runs(tmp_path, store)[run].status
        assert status is not None and (status.kind, status.done) == ("count", steps)
