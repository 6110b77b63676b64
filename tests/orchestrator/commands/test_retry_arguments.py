"""How `orchestrator retry` reads its arguments, and `orchestrator runs` words its rows; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import exit_status
from orchestrator.commands.retry import make_parser, run
from orchestrator.commands.runs import table
from orchestrator.output import OutputFolder
from orchestrator.runs.status import ParkedState, RunStatus, write_parked_state


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
    arguments = make_parser().parse_args(line.split())
    assert (arguments.run, arguments.tasks, arguments.overrides) == (Path("RUN"), ["a", "b"], ["X=1"])
    assert arguments.plain


def test_a_retry_needs_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    for line in ([], ["--set", "X=1"], ["RUN", "--unknown"]):
        with pytest.raises(SystemExit):
            make_parser().parse_args(line)
        assert "usage: orchestrator retry" in capsys.readouterr().err


def test_a_run_at_a_dead_end_is_not_started_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = OutputFolder(tmp_path)
    output.run_id("guide")
    write_parked_state(output, ParkedState("no valid answer", is_dead_end=True))
    before = sorted(tmp_path.iterdir())
    assert run(make_parser().parse_args([str(tmp_path)])) == exit_status.BROKEN
    said = capsys.readouterr().err
    assert "no valid answer" in said and "start another run" in said and "Traceback" not in said
    assert sorted(tmp_path.iterdir()) == before


def status(cost_usd: float | None, total: int) -> RunStatus:
    return RunStatus(
        run="r", kind="evolve", folder="f", state="stopped", unit="generations", done=1, total=total, figures={},
        summary="7 steps", target_tokens=5, calls=2, cost_usd=cost_usd, unconfirmed_usd=0.0, budget_usd=0.0,
        reason="", failures=(),
    )  # fmt: skip


def test_the_cost_in_the_list_of_runs_is_worded_as_in_the_status_of_one() -> None:
    lines = table([status(cost, total=2) for cost in (0.0, None, 0.0123, 12.5)])
    for line, cost in zip(lines[1:], ("free", "unknown", "$0.0123", "$12.50"), strict=True):
        assert f" {cost} " in line
    assert " FIGURES " in lines[0] and " 7 steps " in lines[1], "the kind of run says what its figures are"


def test_one_generation_is_singular() -> None:
    assert (status(0.0, total=1).progress, status(0.0, total=2).progress) == ("1 of 1 generation", "1 of 2 generations")
