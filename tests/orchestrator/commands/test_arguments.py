"""How commands read their arguments, their help, and what they say before anything is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from orchestrator import console
from orchestrator.cli import orchestrator
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import override_values


def test_the_help_of_a_command_says_what_each_exit_status_means(run: Any) -> None:
    names = orchestrator.list_commands(click.Context(orchestrator))
    assert len(names) <= 18
    for name in names:
        group = orchestrator.get_command(click.Context(orchestrator), name)
        for below in group.commands if isinstance(group, click.Group) else [None]:
            status, said = run(name, *filter(None, [below]), "--help")
            assert status == 0 and "exit status: " in said, (name, below)


@pytest.mark.parametrize("name", ["evolve", "collect", "guide", "route", "init", "farm"])
def test_the_help_of_a_command_imports_neither_celery_nor_redis(name: str) -> None:
    code = f"import sys; from orchestrator.cli import main; main(['{name}', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"celery", "redis", "torch"} & set(done.stdout.splitlines()[-1].split())


def test_a_command_that_is_misspelt_is_answered_with_the_one_that_was_meant(run: Any) -> None:
    for typed, meant in ((["evolv"], "evolve"), (["farm", "stauts"], "status"), (["runs", "--jsno"], "--json")):
        status, said = run(*typed)
        assert status == console.WRONG and meant in said


@pytest.mark.parametrize(
    "command",
    ["compare RUN", "status RUN", "export RUN --to vllm", "guide promote RUN --to g.json", "retry RUN", "best RUN RUN",
     "guide rollback RUN --mission m --step 1"],
)  # fmt: skip
def test_a_folder_without_a_run_is_refused(tmp_path: Path, run: Any, command: str) -> None:
    status, said = run(*command.replace("RUN", str(tmp_path)).split())
    assert status == console.WRONG and str(tmp_path) in said
    assert not [*tmp_path.iterdir()]


def test_settings_are_named_with_or_without_their_section_and_all_wrong_ones_are_told_at_once() -> None:
    may_change = ("phase0.judge_concurrency", "farm.budget_usd", "farm.price_prompt")
    for name in ("farm.budget_usd", "budget_usd"):
        values: dict[str, Any] = {"seed": 1}
        override_values(values, [f"{name}=5"], may_change)
        assert values == {"seed": 1, "farm": {"budget_usd": 5}}
    with pytest.raises(SettingsError) as error:
        override_values(values, ["budget=5", "phase0.judge_concurency=2", "seed=2", "price_prompt"], may_change)
    told = error.value.problems
    assert len(told) == 4 and "did you mean farm.budget_usd?" in told[0] and "phase0.judge_concurrency?" in told[1]
    assert "another run" in told[2] and "NAME=VALUE" in told[3] and values["seed"] == 1


@pytest.mark.parametrize(
    ("options", "known", "unknown"),
    [
        ([], ["reflector: gpt-4o, or rules, ", "cost: not known before"], "at http"),
        (["OPENAI_BASE_URL=http://127.0.0.1:9/v1", "OPENAI_PRICES=1 1 1", "BUDGET_USD=5"], ["at most $5.00"], "rules"),
        (["OPENAI_BASE_URL=http://127.0.0.1:9/v1"], ["judge: gpt-4o at http", "cost: unknown"], "free"),
        (["OPTIMISER=cma", "JUDGE=a_judge:right"], ["reflector: none", "cost: free"], "gpt-4o"),
    ],
)
def test_the_first_line_of_evolve_is_true_before_the_farm_has_answered(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch, options: list[str], known: list[str], unknown: str
) -> None:
    monkeypatch.setattr("orchestrator.farm.connection.START_WAIT_S", 0.1)
    sets = [part for one in ("FARM=redis://127.0.0.1:1/0", *options) for part in ("--set", one)]
    config = ("--config", "configs/evolve.config", "--output", tmp_path / "run")
    status, said = run("evolve", *config, *sets, "--plain")
    first, *_ = said.splitlines()
    assert status == console.BROKEN and all(one in first for one in known) and unknown not in first
