"""How commands read their arguments, their help, and what they say before anything is started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from terminal import run_here as run

from orchestrator import console
from orchestrator.cli import GROUPS, orchestrator
from orchestrator.commands.runs import retry
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.status import ParkedState, write_parked_state
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import override_values
from orchestrator.settings.kconfig import load_settings

Captured = pytest.CaptureFixture[str]


def commands(group: click.Group, *names: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield from commands(found, *names, name) if isinstance(found, click.Group) else [(*names, name)]


def test_the_help_of_a_command_says_what_each_exit_status_means(capsys: Captured) -> None:
    for names in commands(orchestrator):
        status, said = run(capsys, *names, "--help")
        assert status == 0 and "exit status: " in said, names


@pytest.mark.parametrize("name", ["evolve", "collect", "guide", "route", "init", "farm"])
def test_the_help_of_a_command_imports_neither_celery_nor_redis(name: str) -> None:
    code = f"import sys; from orchestrator.cli import main; main(['{name}', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"celery", "redis", "torch"} & set(done.stdout.splitlines()[-1].split())


def test_the_help_groups_at_most_eighteen_commands(capsys: Captured) -> None:
    groups = run(capsys, "--help")[1].split("\n\n")
    named = [text.partition(":")[0] for text in groups if text.startswith(tuple(GROUPS))]
    assert named == ["run", "look", "serve", "farm"]
    assert len(orchestrator.list_commands(click.Context(orchestrator))) <= 18


def test_a_command_that_is_misspelt_is_answered_with_the_one_that_was_meant(capsys: Captured) -> None:
    for typed, meant in ((["evolv"], "evolve"), (["farm", "stauts"], "status"), (["runs", "--jsno"], "--json")):
        status, said = run(capsys, *typed)
        assert status == console.WRONG and meant in said


def test_a_run_at_a_dead_end_is_not_started_again(tmp_path: Path, capsys: Captured) -> None:
    output = OutputFolder(tmp_path)
    output.run_id("guide")
    write_parked_state(output, ParkedState("no valid answer", is_dead_end=True))
    before = sorted(tmp_path.iterdir())
    status, said = run(capsys, "retry", tmp_path)
    assert status == console.BROKEN and "no valid answer" in said
    assert sorted(tmp_path.iterdir()) == before


def test_settings_of_a_run_at_work_are_not_changed(tmp_path: Path, capsys: Captured) -> None:
    output = OutputFolder(tmp_path)
    output.run_id("guide")
    output.open()
    status, said = run(capsys, "retry", tmp_path, "--set", "budget_usd=9")
    output.close()
    assert status == console.WRONG and "is running; stop it" in said


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


def test_clusters_without_a_run_have_no_options_of_a_run(capsys: Captured) -> None:
    chosen = ("--config", "configs/embedded.config", "--set", "FARM=redis://127.0.0.1:1/0")
    for of_a_run in ("--fresh", "--plain", "--retry-wait=5", "--fork=outputs/evolve"):
        assert run(capsys, "evolve", "--step", "cluster", of_a_run, *chosen)[0] == console.WRONG


@pytest.mark.parametrize(
    ("options", "known", "unknown"),
    [
        ([], ["reflector: gpt-4o, or rules, ", "cost: not known before"], "at http"),
        (["OPENAI_BASE_URL=http://127.0.0.1:9/v1", "OPENAI_PRICES=1 1 1", "BUDGET_USD=5"], ["at most $5.00"], "rules"),
        (["OPTIMISER=cma", "JUDGE=a_judge:right"], ["reflector: none", "cost: free"], "gpt-4o"),
    ],
)
def test_the_first_line_of_evolve_is_true_before_the_farm_has_answered(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch,
    options: list[str], known: list[str], unknown: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("orchestrator.farm.connection.START_WAIT_S", 0.1)
    sets = [part for one in ("FARM=redis://127.0.0.1:1/0", *options) for part in ("--set", one)]
    config = ("--config", "configs/evolve.config", "--output", tmp_path / "run")
    status, said = run(capsys, "evolve", *config, *sets, "--plain")
    first, *_ = said.splitlines()
    assert status == console.BROKEN and all(one in first for one in known) and unknown not in first


def test_a_guide_without_a_file_or_with_a_wrong_one_is_not_started(tmp_path: Path, capsys: Captured) -> None:
    status, said = run(capsys, "guide")
    assert status == console.WRONG and "--config" in said
    (tmp_path / "guide.yaml").write_text("missions: {a/b: x}\nrunner: {epochs: 0}\n")
    status, said = run(capsys, "guide", "--config", tmp_path / "guide.yaml")
    named = {line.split(": ")[1] for line in said.splitlines()}
    assert status == console.WRONG and {"stage_a_paths", "runner.epochs", "missions.'a/b'"} <= named


def test_a_folder_without_a_run_is_neither_promoted_nor_taken_back(tmp_path: Path, capsys: Captured) -> None:
    status, said = run(capsys, "guide", "promote", tmp_path, "--to", tmp_path / "g.json")
    assert status == console.WRONG and "holds no run" in said
    assert run(capsys, "guide", "rollback", tmp_path, "--mission", "m", "--step", "1")[0] == console.WRONG
