"""A run that goes on has the questions and the target servers that it began with."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from orchestrator.evolve.questions import check_same_questions, keep_questions
from orchestrator.evolve.resume import keep_servers, read_servers, unknown_servers
from orchestrator.runs.folder import OutputFolder
from orchestrator.settings import SettingsError
from tasks.records import Example
from tasks.store.store import Store

TRAINING = [Example(f"q{number}", "the pages", f"question {number}?", "so") for number in range(14)]
EXAMPLES = {"training": TRAINING, "validation": [Example("v", "", "and now?", "yes")], "test": []}


@pytest.fixture
def output(tmp_path: Path) -> OutputFolder:
    output = OutputFolder(tmp_path)
    keep_questions(output, EXAMPLES)
    return output


def refused(output: OutputFolder, examples: dict[str, list[Example]]) -> list[str]:
    with pytest.raises(SettingsError) as error:
        check_same_questions(output, examples)
    return list(error.value.problems)


@pytest.mark.parametrize("change", [{"question": "another?"}, {"gold": "not so"}, {"context": "other pages"}])
def test_a_question_that_has_changed_is_named_with_both_hashes(output: OutputFolder, change: dict[str, str]) -> None:
    changed = [dataclasses.replace(TRAINING[0], **change), *TRAINING[1:]]
    [line] = refused(output, EXAMPLES | {"training": changed})
    assert line.startswith("CONFIG_DATA_PATH: the training set has changed (q0): its hash is ")
    assert " here, but " in line and f" in the run in {output.path}; " in line
    # And the first hashes stand
    keep_questions(output, EXAMPLES | {"training": changed})
    check_same_questions(output, EXAMPLES)


def test_each_server_that_has_answered_is_kept_once(output: OutputFolder) -> None:
    keep_servers(output, [{"version": "1"}])
    keep_servers(output, [{"version": "1"}, {"version": "2"}])
    assert read_servers(output) == [{"version": "1"}, {"version": "2"}]


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
