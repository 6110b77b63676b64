"""The questions of a run: chosen from data of any format, the same in every session, and short enough."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.evolve.questions import (
    apply_too_long,
    check_judge,
    check_same_questions,
    choose_examples,
    doubtful_data,
    keep_questions,
)
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.jobs import LongPrompts
from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.options import Settings
from tasks.records import Example

ROOT = Path(__file__).parents[3]
CSV = """nr,part,q,gold
1,train,One?,11
2,train,Two?,22
3,train,Three?,33
1,dev,Four?,44
2,dev,Five?,55
1,held out,Six?,66
"""
OWN = (
    "DATA_COLUMNS=id=nr split=part question=q answer=gold context=",
    "TRAINING=train", "VALIDATION=dev", "TEST=held out",
)  # fmt: skip

Settle = Callable[..., Settings]


@pytest.fixture
def settle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settle:
    """Settings for a file with this content, with these overrides."""
    monkeypatch.chdir(ROOT)

    def make(content: str, *overrides: str, name: str = "questions.csv") -> Settings:
        path = tmp_path / name
        path.write_text(content)
        chosen = dict(override.split("=", 1) for override in overrides)  # of an option that is repeated the last
        return load_settings(Path("configs/embedded.config"), {"DATA_PATH": str(path), **chosen})

    return make


def ids(settings: Settings) -> dict[str, list[str]]:
    return {which: [row.id for row in rows] for which, rows in choose_examples(settings).items()}


def problems(settings: Settings) -> Sequence[str]:
    with pytest.raises(SettingsError) as error:
        choose_examples(settings)
    return error.value.problems


def test_financebench_has_no_splits_so_that_its_indices_count_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    overrides = ["DATA_PATH=configs/data/sample.jsonl", "FINANCEBENCH_POOL_INDICES=0-1", "VALIDATION=", "TEST=47"]
    chosen = ids(load_settings(Path("configs/embedded.config"), overrides))
    assert chosen == {
        "training": ["sample_id_00001", "sample_id_00002"], "validation": [], "test": ["sample_id_00048"],
    }  # fmt: skip


def test_everything_that_is_wrong_with_the_sets_is_said_at_once(settle: Settle) -> None:
    wrong = settle(CSV, *OWN, "TRAINING=train[0-9]", "VALIDATION=nowhere")
    training, validation = problems(wrong)
    assert training.startswith("CONFIG_TRAINING: ")
    assert validation.startswith("CONFIG_VALIDATION: ") and "'dev', 'held out', 'train'" in validation


def test_two_sets_have_no_question_in_common(settle: Settle) -> None:
    shared = settle(CSV, *OWN, "VALIDATION=0,1,3", "TEST=dev")
    assert problems(shared) == (
        "CONFIG_VALIDATION: 2 rows are in the training set as well",
        "CONFIG_TEST: 1 rows are in the validation set as well",
    )
    with pytest.raises(SettingsError, match="CONFIG_TEST: "):
        settle(CSV, *OWN, "TEST=train")


def test_exact_numbers_need_golds_with_a_number(settle: Settle) -> None:
    settings = settle(CSV.replace(",22", ",many").replace(",66", ",several"), *OWN, "JUDGE=exact_number")
    with pytest.raises(SettingsError) as error:
        check_judge(settings, choose_examples(settings))
    assert str(error.value) == "CONFIG_JUDGE: right answers without a number: train/2 ('many'), held out/1 ('several')"
    numbers = settle(CSV, *OWN, "JUDGE=exact_number")
    check_judge(numbers, choose_examples(numbers))


def test_a_function_must_be_there_for_the_workers_of_an_embedded_farm(settle: Settle) -> None:
    rows: Any = {"training": [], "validation": [], "test": []}
    with pytest.raises(SettingsError, match="CONFIG_JUDGE: the judge 'no_such_module:judge' cannot be loaded"):
        check_judge(settle(CSV, *OWN, "JUDGE=no_such_module:judge"), rows)
    check_judge(settle(CSV, *OWN, "JUDGE=no_such_module:judge", "FARM=external"), rows)
    check_judge(settle(CSV, *OWN), rows)


def test_a_question_that_two_sets_have_under_other_ids_is_reported(settle: Settle) -> None:
    # given a test set that repeats two questions of the training set, and one of validation with another context
    content = """id,split,question,context,answer
1,train,One?,a,11
2,train,Two?,a,22
3,validation,One?,b,33
4,validation,Two?,a,22
5,test,One?,a,11
6,test, Two? ,a,22
"""
    examples = choose_examples(settle(content, "TRAINING=train", "VALIDATION=validation", "TEST=test"))
    # when and then
    assert [line.partition(" are in")[0] for line in doubtful_data(examples)] == [
        "1 of 2 questions (50%) of the validation set", "2 of 2 questions (100%) of the test set",
    ]  # fmt: skip
    assert doubtful_data({**examples, "test": [], "validation": []}) == []
    # and golds that look like none are named
    row = examples["training"][0]
    [line] = doubtful_data({"training": [dataclasses.replace(row, gold="NaN"), dataclasses.replace(row, id="x")]})
    assert line.endswith(f": {row.id}")


TRAINING = [Example(f"q{number}", "the pages", f"question {number}?", "so") for number in range(14)]
EXAMPLES = {"training": TRAINING, "validation": [Example("v", "", "and now?", "yes")], "test": []}


@pytest.mark.parametrize("change", [{"question": "another?"}, {"gold": "not so"}, {"context": "other pages"}])
def test_a_question_that_has_changed_is_named_with_both_hashes(tmp_path: Path, change: dict[str, str]) -> None:
    keep_questions(output := OutputFolder(tmp_path), EXAMPLES)
    changed = [dataclasses.replace(TRAINING[0], **change), *TRAINING[1:]]
    with pytest.raises(SettingsError) as error:
        check_same_questions(output, EXAMPLES | {"training": changed})
    [line] = error.value.problems
    assert line.startswith("CONFIG_DATA_PATH: the training set has changed (q0): its hash is ")
    assert " here, but " in line and f" in the run in {output.path}; " in line
    # And the first hashes stand
    keep_questions(output, EXAMPLES | {"training": changed})
    check_same_questions(output, EXAMPLES)


SETS = ("training", "validation")
ROWS = {which: [Example(f"{which}{i}", "a long context", "why?", "so") for i in range(2)] for which in SETS}
FOUND = LongPrompts(8_127, 64, {"training1": 9_312, "validation0": 10_000})


def test_what_is_dropped_is_said() -> None:
    said: list[str] = []
    kept = apply_too_long("drop", ROWS, FOUND, said.append)
    assert {which: [row.id for row in rows] for which, rows in kept.items()} == {
        "training": ["training0"], "validation": ["validation1"],
    }  # fmt: skip
    assert len(said) == 1 and "training1 (9,312 tokens)" in said[0]
    with pytest.raises(SettingsError, match="no question to learn from"):
        apply_too_long("drop", ROWS, LongPrompts(1, 64, {"training0": 2, "training1": 2}), said.append)
