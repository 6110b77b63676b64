"""The questions of a run: chosen from data of any format, the same in every session, and short enough."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from simulated_measurer import evolve_settings

from orchestrator.evolve.questions import (
    apply_too_long,
    check_judge,
    check_same_questions,
    choose_examples,
    doubtful_data,
    keep_questions,
)
from orchestrator.report.statistics import correctness_change, non_inferiority
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.jobs import LongPrompts
from orchestrator.settings import SettingsError
from orchestrator.settings.options import Settings
from tasks.records import Example

CSV = """nr,part,q,gold
1,train,One?,11
2,train,Two?,22
3,train,Three?,33
1,dev,Four?,44
2,dev,Five?,55
1,held out,Six?,66
"""
OWN = {
    "data_columns": "id=nr split=part question=q answer=gold context=",
    "training": "train", "validation": "dev", "test": "held out",
}  # fmt: skip


def settle(folder: Path, content: str = CSV, **options: object) -> Settings:
    """Settings for a file with this content, with these options."""
    (path := folder / "questions.csv").write_text(content)
    return evolve_settings(data_path=path, **{**OWN, **options})


@pytest.mark.parametrize(
    ("sets", "problems"),
    [
        (
            {"training": "train[0-9]", "validation": "nowhere"},
            ["CONFIG_TRAINING: ", "CONFIG_VALIDATION: .*'dev', 'held out', 'train'"],
        ),
        (
            {"validation": "0,1,3", "test": "dev"},
            ["CONFIG_VALIDATION: 2 rows are in the training set", "CONFIG_TEST: 1 rows are in the validation set"],
        ),
    ],
)
def test_everything_that_is_wrong_with_the_sets_is_said_at_once(
    tmp_path: Path, sets: dict[str, str], problems: list[str]
) -> None:
    with pytest.raises(SettingsError) as error:
        choose_examples(settle(tmp_path, **sets))
    assert len(error.value.problems) == len(problems)
    for said, expected in zip(error.value.problems, problems, strict=True):
        assert re.match(expected, said)


@pytest.mark.parametrize(
    ("count", "options", "ordering"),
    [(24, {}, 12), (23, {}, 0), (24, {"validation": ""}, 0), (24, {"whole": False}, 0)],
)
def test_half_of_enough_training_questions_is_kept_from_the_search(
    tmp_path: Path, count: int, options: dict[str, object], ordering: int
) -> None:
    rows = "".join(f"{number},train,{number}?,1\n" for number in range(10, 10 + count))
    found = choose_examples(
        settle(tmp_path, CSV.partition("1,train")[0] + rows + "1,dev,Four?,44\n", test="", **options)
    )
    kept, searched = ({row.id for row in found.get(which, [])} for which in ("ordering", "training"))
    assert len(kept) == ordering and len(kept | searched) == len(kept) + len(searched) == count


def test_a_judge_must_fit_the_data_and_be_there_for_the_workers_of_an_embedded_farm(tmp_path: Path) -> None:
    wordy = settle(tmp_path, CSV.replace(",22", ",many").replace(",66", ",several"), judge="exact_number")
    with pytest.raises(SettingsError, match=r"CONFIG_JUDGE: .*: train/2 \('many'\), held out/1 \('several'\)$"):
        check_judge(wordy, choose_examples(wordy))
    check_judge(found := settle(tmp_path, judge="exact_number"), examples := choose_examples(found))
    with pytest.raises(SettingsError, match="CONFIG_JUDGE: the judge 'no_such_module:judge' cannot be loaded"):
        check_judge(settle(tmp_path, judge="no_such_module:judge"), examples)
    check_judge(settle(tmp_path, judge="no_such_module:judge", farm="external"), examples)


def test_a_question_that_two_sets_have_under_other_ids_is_reported(tmp_path: Path) -> None:
    # given a test set that repeats both questions of the training set, and one of validation with another context
    content = """id,split,question,context,answer
1,train,One?,a,11
2,train,Two?,a,nan
3,validation,One?,b,33
4,validation,Two?,a,22
5,test,One?,a,11
6,test, Two? ,a,22
"""
    splits = {"training": "train", "validation": "validation", "test": "test", "data_columns": ""}
    golds, validation, test = doubtful_data(choose_examples(settle(tmp_path, content, **splits)), 0.9)
    assert golds.endswith("such as 'nan': 2")
    assert validation.startswith("1 of 2 questions (50%) of the validation set are in the training set")
    assert test.startswith("2 of 2 questions (100%) of the test set are in the")


def test_questions_that_are_too_long_are_dropped_by_name_and_some_must_be_left() -> None:
    sets, said = ("training", "validation"), list[str]()
    rows = {which: [Example(f"{which}{i}", "a long context", "why?", "so") for i in range(2)] for which in sets}
    kept = apply_too_long("drop", rows, LongPrompts(8_127, 64, {"training1": 9_312, "validation0": 1}), said.append)
    assert [[row.id for row in kept[which]] for which in sets] == [["training0"], ["validation1"]]
    assert len(said) == 1 and "training1 (9,312 tokens)" in said[0]
    for mode, which, fault in (
        ("error", "validation", "CONFIG_TOO_LONG: .*64"),
        ("drop", "training", "leaves no question"),
    ):
        with pytest.raises(SettingsError, match=fault):
            apply_too_long(mode, rows, LongPrompts(1, 64, {f"{which}0": 2, f"{which}1": 2}), said.append)


@pytest.mark.parametrize(("asked", "margin"), [(88, 0.03), (52, 0.05)])
def test_a_validation_set_with_which_not_even_an_equal_system_passes_is_reported(asked: int, margin: float) -> None:
    # given so many questions that a system passes where no answer changes sides, and one fewer
    for count in (asked, asked - 1):
        verdicts = [True] * count
        can_pass = non_inferiority(correctness_change(verdicts, verdicts), margin).is_shown
        rows = [Example(str(number), f"{number}?", "", "1") for number in range(count)]
        lines = doubtful_data({"training": [], "validation": rows}, margin)
        assert can_pass == (count == asked) == (not lines) and all(f"at least {asked} " in line for line in lines)


@pytest.mark.parametrize("change", [{"question": "another?"}, {"gold": "not so"}, {"context": "other pages"}])
def test_a_question_that_has_changed_is_named_with_both_hashes(tmp_path: Path, change: dict[str, str]) -> None:
    rows = [Example(f"q{number}", "the pages", f"question {number}?", "so") for number in range(2)]
    examples = {"training": rows, "validation": [Example("v", "", "and now?", "yes")], "test": []}
    changed = {**examples, "training": [dataclasses.replace(rows[0], **change), rows[1]]}
    keep_questions(output := OutputFolder(tmp_path), examples)
    with pytest.raises(SettingsError, match=rf"CONFIG_DATA_PATH: the training .*\(q0\): .* in {tmp_path}; "):
        check_same_questions(output, changed)
    # And the first hashes stand
    keep_questions(output, changed)
    check_same_questions(output, examples)
