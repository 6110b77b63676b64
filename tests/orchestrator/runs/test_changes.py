"""Settings that change while a run is stopped: recorded once, with the generation from which they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.output import OutputError, OutputFolder
from orchestrator.runs.changes import (
    CHANGES_FILE,
    SettingsChange,
    judge_identity,
    judged_since,
    mark_applied,
    options_of,
    read_changes,
    record_change,
)
from orchestrator.settings import Settings, load_settings

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
    assert read_changes(output) == [SettingsChange(3, options, is_other_judge=False, is_applied=True)]
    assert options_of(read_changes(output), 3) == {
        "REFLECTOR_MODEL": "other", "REFLECTOR_MAX_COMPLETION_TOKENS": "8192",
    }  # fmt: skip
    assert options_of(read_changes(output), 4) == {}


def test_equal_settings_leave_no_file(output: OutputFolder) -> None:
    record_change(output, settings(), settings(), 3)
    assert not (output.path / CHANGES_FILE).exists() and read_changes(output) == []


@pytest.mark.parametrize(
    ("override", "is_other"),
    [
        (["JUDGE_MODEL=other"], True),
        (["OPENAI_PARAMETERS={}"], True),
        (["JUDGE_MAX_COMPLETION_TOKENS=4096"], True),
        (["OPENAI_BASE_URL=https://api.example/v1"], True),
        (["FARM=external"], True),
        (["TARGET_CONCURRENCY=9"], False),
        (["REFLECTOR_MODEL=other"], False),
        (["BUDGET_USD=9"], False),
    ],
)
def test_another_judge_is_one_with_other_settings_or_another_address(override: list[str], is_other: bool) -> None:
    assert (judge_identity(settings()) != judge_identity(settings(*override))) == is_other


def test_a_judge_that_changed_is_pending_until_its_predecessor_s_verdicts_are_gone(output: OutputFolder) -> None:
    record_change(output, settings(), settings("JUDGE_MODEL=other"), 2)
    assert [(change.is_other_judge, change.is_applied) for change in read_changes(output)] == [(True, False)]
    mark_applied(output)
    record_change(output, settings("JUDGE_MODEL=other"), settings("JUDGE_MODEL=other", "NGEN=9"), 5)
    changes = read_changes(output)
    assert [(change.generation, change.is_applied) for change in changes] == [(2, True), (5, True)]
    assert judged_since(changes) == 2


def test_a_file_that_is_of_no_use_is_named(output: OutputFolder) -> None:
    (output.path / CHANGES_FILE).write_text('{"changes": [{"generation": "x"}]}')
    with pytest.raises(OutputError, match=CHANGES_FILE):
        read_changes(output)
