"""How commands read their arguments, and what they say before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from orchestrator import console
from orchestrator.cli import main, orchestrator
from orchestrator.commands.runs import retry
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.status import ParkedState, write_parked_state
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import override_values
from orchestrator.settings.kconfig import load_settings


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


MAY_CHANGE = ("phase0.judge_concurrency", "farm.budget_usd", "farm.price_prompt")


@pytest.mark.parametrize("name", ["farm.budget_usd", "budget_usd"])
def test_a_setting_is_named_by_its_key_with_or_without_its_section(name: str) -> None:
    values: dict[str, Any] = {}
    override_values(values, [f"{name}=5"], MAY_CHANGE)
    assert values == {"farm": {"budget_usd": 5}}


def test_all_wrong_settings_are_told_at_once_with_those_that_were_meant() -> None:
    values: dict[str, Any] = {"seed": 1}
    with pytest.raises(SettingsError) as error:
        override_values(values, ["budget=5", "phase0.judge_concurency=2", "seed=2", "price_prompt"], MAY_CHANGE)
    told = error.value.problems
    assert len(told) == 4 and "did you mean farm.budget_usd?" in told[0] and "phase0.judge_concurrency?" in told[1]
    assert "another run" in told[2] and "NAME=VALUE" in told[3] and values == {"seed": 1}


def test_resume_is_the_same_command_as_retry_and_options_may_be_in_lower_case() -> None:
    assert orchestrator.get_command(click.Context(orchestrator), "resume") is retry
    assert load_settings(Path("configs/evolve.config"), ["ngen=3"]).ngen == 3


def test_clusters_without_a_run_have_no_options_of_a_run() -> None:
    chosen = ("--config", "configs/embedded.config", "--set", "FARM=redis://127.0.0.1:1/0")
    for of_a_run in ("--fresh", "--plain", "--retry-wait=5", "--fork=outputs/evolve"):
        assert main(["evolve", "--step", "cluster", of_a_run, *chosen]) == console.WRONG


@pytest.mark.parametrize(
    ("options", "known", "unknown"),
    [
        ([], ["reflector: gpt-4o, or rules, ", "cost: not known before"], "at http"),
        (["OPENAI_BASE_URL=http://127.0.0.1:9/v1", "OPENAI_PRICES=1 1 1", "BUDGET_USD=5"], ["at most $5.00"], "rules"),
        (["OPTIMISER=cma", "JUDGE=a_judge:right"], ["reflector: none", "cost: free"], "gpt-4o"),
    ],
)
def test_the_first_line_of_evolve_is_true_before_the_farm_has_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    options: list[str], known: list[str], unknown: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("orchestrator.farm.connection.START_WAIT_S", 0.1)
    sets = [part for one in ("FARM=redis://127.0.0.1:1/0", *options) for part in ("--set", one)]
    config = ("--config", "configs/evolve.config", "--output", str(tmp_path / "run"))
    assert main(["evolve", *config, *sets, "--plain"]) == console.BROKEN
    first, *_ = capsys.readouterr().out.splitlines()
    assert all(one in first for one in known) and unknown not in first
