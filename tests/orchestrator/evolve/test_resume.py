"""A run that goes on: settings that may change, recorded once, and the target servers that it began with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orchestrator.evolve.resume import (
    SettingsChange,
    check_resumable,
    keep_servers,
    read_changes,
    record_change,
    saved_settings,
    unknown_servers,
)
from orchestrator.evolve.session import start_evolution
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings, write_config
from orchestrator.settings.options import Settings
from tasks.store.store import Store

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def output(tmp_path: Path) -> OutputFolder:
    return OutputFolder(tmp_path)


def settings(*overrides: str) -> Settings:
    return load_settings(ROOT / "configs" / "embedded.config", overrides)


def test_a_change_is_recorded_once_with_its_generation(output: OutputFolder) -> None:
    before, after = (
        settings(),
        settings("REFLECTOR_MAX_COMPLETION_TOKENS=8192", "REFLECTOR_MODEL=other", "OUTPUT_DIR=x"),
    )
    for _ in range(2):  # a start that is killed before it has written the settings is made again
        record_change(output, before, after, 3)
    options = {"REFLECTOR_MODEL": ["gpt-4o", "other"], "REFLECTOR_MAX_COMPLETION_TOKENS": ["2048", "8192"]}
    assert read_changes(output) == [SettingsChange(3, options)]


@pytest.mark.parametrize(
    "override", ["JUDGE_MODEL=other", "OPENAI_PARAMETERS={}", "OPENAI_BASE_URL=https://api.example/v1", "SEED=7"]
)
def test_another_judge_or_search_is_refused(output: OutputFolder, override: str) -> None:
    write_config(settings(), output.config)
    with pytest.raises(SettingsError, match="CONFIG_"):
        check_resumable(output, settings(override))


@pytest.mark.parametrize(
    "overrides",
    [["TARGET_CONCURRENCY=9", "REFLECTOR_MODEL=other", "BUDGET_USD=9"], ["JUDGE=exact_number", "FARM=external"]],
)
def test_what_no_verdict_depends_on_may_change(output: OutputFolder, overrides: list[str]) -> None:
    judge = [one for one in overrides if one.startswith("JUDGE=")]
    write_config(settings(*judge), output.config)
    check_resumable(output, settings(*overrides))


def test_a_run_whose_history_was_cut_does_not_go_on(finished_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished_run, tmp_path / "run")
    history = (folder / "history.jsonl").read_text().splitlines(keepends=True)
    (folder / "history.jsonl").write_text(history[0])
    with pytest.raises(OutputError, match=r"history\.jsonl has 1 of the 2 generations"):
        start_evolution(saved_settings(folder), fresh=False, plain=True)


def test_a_server_that_answered_when_no_process_worked_on_the_run_is_unknown(store: Store, tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    keep_servers(output, [{"model": "own"}])
    store.add_server("run", {"model": "own"})
    assert unknown_servers(output, store, "run") == []
    # When a task that was left in a queue is answered by another server
    store.add_server("run", {"model": "upgraded"})
    assert unknown_servers(output, store, "run") == [{"model": "upgraded"}]
    store.forget_servers("run")
    assert unknown_servers(output, store, "run") == []
