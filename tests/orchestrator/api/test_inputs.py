"""Judges and questions that are Python objects, as files that settings name."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.api.inputs import InputError, data_settings, judge_settings
from orchestrator.output import OutputError
from orchestrator.settings.load import load_settings
from tasks.judging.grader import EXACT_NUMBER
from tasks.judging.rule import find_match
from tasks.questions import read_questions

ROWS = [
    {"question": "What is 3 plus 4?", "answer": np.int64(7), "hint": float("nan")},
    {"question": "Where is Köln?", "answer": "in Germany", "hint": ["two", "parts"]},
]


class Table:
    """What of a DataFrame is used."""

    def iterrows(self) -> None: ...

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return ROWS


@pytest.mark.parametrize("data", [ROWS, iter(ROWS), Table()])
def test_rows_are_a_file_of_questions(data: Any, tmp_path: Path) -> None:
    chosen = data_settings(data, tmp_path)
    examples = [one.example for one in read_questions(chosen["DATA_PATH"])]
    assert [(one.question, one.gold) for one in examples] == [
        ("What is 3 plus 4?", "7"),
        ("Where is Köln?", "in Germany"),
    ]
    assert data_settings(ROWS, tmp_path) == chosen
    assert (chosen["TRAINING"], chosen["VALIDATION"], chosen["TEST"]) == ("all", "", "")
    assert len(list(tmp_path.iterdir())) == 1


def test_parts_are_splits_that_a_run_uses(tmp_path: Path) -> None:
    chosen = data_settings({"training": ROWS, "validation": ROWS[:1]}, tmp_path)
    named = [(one.split, one.example.gold) for one in read_questions(chosen["DATA_PATH"])]
    assert named == [("training", "7"), ("training", "in Germany"), ("validation", "7")]
    settings = load_settings(Path("configs/embedded.config"), chosen)
    assert (settings.training, settings.validation, settings.test) == ("training", "validation", "")


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (["a question"], "data: row 1 is a str, not a mapping of columns to values"),
        ([ROWS[0], {"question": datetime.date(2026, 1, 1)}], "data: row 2: Object of type date is not JSON"),
        ([{"question": "q", "answer": float("inf")}], "data: row 1: Out of range float values"),
        ({"train": ROWS}, "data: it has no 'training'"),
        ({"training": ROWS, "dev": ROWS}, "data: it has 'dev'; a mapping has rows for 'training', and perhaps"),
        (3, "data: 3 has no rows; each is a mapping of columns to values"),
        ({"training": "questions.csv"}, "data: 'questions.csv' has no rows"),
    ],
)
def test_what_is_no_rows_is_refused(data: Any, fault: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        data_settings(data, tmp_path)
    assert fault in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_rows_that_name_their_split_leave_the_splits_to_the_settings(tmp_path: Path) -> None:
    assert data_settings([{**ROWS[0], "split": "dev"}, ROWS[1]], tmp_path).keys() == {"DATA_PATH"}


def test_a_path_stays_a_path(tmp_path: Path) -> None:
    assert data_settings(tmp_path / "questions.csv", tmp_path) == {"DATA_PATH": f"{tmp_path}/questions.csv"}


def contains(question: str, gold: str, answer: str) -> bool:
    return gold in answer


def test_a_judge_is_named_where_a_worker_can_import_it_and_written_down_where_not(tmp_path: Path) -> None:
    assert judge_settings(EXACT_NUMBER, tmp_path) == {"JUDGE": "exact_number"}
    assert judge_settings(contains, tmp_path) == {"JUDGE": f"{__file__}:contains"}
    assert judge_settings(find_match, tmp_path) == {"JUDGE": "tasks.judging.rule:find_match"}  # type: ignore[arg-type]

    def local(question: str, gold: str, answer: str) -> bool:
        return gold == answer

    written: Mapping[str, str] = judge_settings(local, tmp_path)
    path, _, name = written["JUDGE"].rpartition(":")
    assert (Path(path).parent, name) == (tmp_path, "local")
    assert "return gold == answer" in Path(path).read_text()
    with pytest.raises(InputError, match="judge: a lambda has no name"):
        judge_settings(lambda question, gold, answer: True, tmp_path)
    # one that is written in C has no file, and the first call shows what it returns
    assert judge_settings(max, tmp_path) == {"JUDGE": "builtins:max"}


def test_a_folder_that_cannot_be_made_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file/from_python/questions_\w+\.jsonl cannot be written: Not a directory$"):
        data_settings(ROWS, tmp_path / "file" / "from_python")
