"""Results of searches on a card: runs of a later call are added to those that are there."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import figures
from benchmarks.gpu.search import runs_before


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    return tmp_path


def options(**changed: object) -> argparse.Namespace:
    return argparse.Namespace(**{"result": "search", "model": "/models/qwen", "rows": 100, "cap": 512, **changed})


def test_runs_and_commands_of_earlier_calls_are_kept(folder: Path) -> None:
    assert runs_before(options()).runs == {}
    about = {"when": "today", "command": "second", "before": [{"when": "yesterday", "command": "first"}]}
    kept = {**about, "model": "qwen", "rows": 100, "cap": 512, "runs": {"cma-1": {"report": {}}}}
    (folder / "gpu_search.json").write_text(json.dumps(kept))
    found = runs_before(options())
    assert list(found.runs) == ["cma-1"]
    assert [one["command"] for one in found.commands] == ["first", "second"]
    for changed in ({"rows": 400}, {"cap": 256}, {"model": "/models/other"}):
        with pytest.raises(SystemExit, match="name another --result"):
            runs_before(options(**changed))
