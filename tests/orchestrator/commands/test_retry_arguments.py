"""How `orchestrator retry` reads its arguments; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import console
from orchestrator.cli import main
from orchestrator.commands.runs import retry
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.status import ParkedState, write_parked_state


@pytest.mark.parametrize(
    "line",
    [
        "RUN a b --set X=1 --plain",
        "RUN --set X=1 a --plain b",
        "--set X=1 RUN --plain a b",
        "RUN a --set=X=1 b --plain",
    ],
)
def test_options_and_tasks_may_come_in_any_order(line: str) -> None:
    given = retry.make_context("retry", line.split()).params
    assert given == {"run": Path("RUN"), "tasks": ("a", "b"), "overrides": ("X=1",), "plain": True}


def test_a_retry_needs_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    for line in ([], ["--set", "X=1"], ["RUN", "--unknown"]):
        assert main(["retry", *line]) == console.WRONG
        assert "see `orchestrator retry --help`" in capsys.readouterr().err


def test_a_run_at_a_dead_end_is_not_started_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = OutputFolder(tmp_path)
    output.run_id("guide")
    write_parked_state(output, ParkedState("no valid answer", is_dead_end=True))
    before = sorted(tmp_path.iterdir())
    assert main(["retry", str(tmp_path)]) == console.BROKEN
    assert "no valid answer" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
