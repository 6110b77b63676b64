"""Questions from files of every format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from question_files import EXPECTED, ROWS, faults, write_csv, write_jsonl, write_parquet

from tasks.questions import Columns, SplitExample, in_split, load_examples, read_questions
from tasks.records import Example
from tasks.tables import DatasetError, format_of

SAMPLE = Path(__file__).parents[2] / "configs/data/sample.jsonl"


def test_the_same_rows_come_out_of_every_format(tmp_path: Path) -> None:
    assert read_questions(write_jsonl(tmp_path / "q.jsonl", ROWS)) == EXPECTED
    assert read_questions(write_csv(tmp_path / "q.csv", ROWS)) == EXPECTED
    assert read_questions(write_csv(tmp_path / "q.tsv", ROWS, "\t")) == EXPECTED


def test_parquet_gives_the_same_rows(tmp_path: Path) -> None:
    assert read_questions(write_parquet(tmp_path / "q.parquet", ROWS)) == EXPECTED


def test_the_columns_have_the_names_that_the_settings_give(tmp_path: Path) -> None:
    rows = [{"nr": 7, "part": "dev", "q": "How much?", "passages": ["One.", "Two."], "gold": 3.5, "other": [1]}]
    columns = Columns(id="nr", question="q", answer="gold", context="passages", split="part")
    expected = [SplitExample(Example("7", "One.\n\nTwo.", "How much?", "3.5"), "dev")]
    assert read_questions(write_jsonl(tmp_path / "q.jsonl", rows), columns) == expected


def test_without_id_context_and_split_rows_are_numbered(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "q.csv", [{"question": "One?", "answer": "1"}, {"question": "Two?", "answer": "2"}])
    expected = [SplitExample(Example("1", "", "One?", "1"), ""), SplitExample(Example("2", "", "Two?", "2"), "")]
    assert read_questions(path) == expected
    assert read_questions(path, Columns(id="", context="", split="")) == expected


@pytest.mark.parametrize("option", ["id", "context", "split"])
def test_a_column_that_is_named_and_that_no_row_has_is_refused(tmp_path: Path, option: str) -> None:
    # given a name with a typing error, which would leave all contexts empty
    path = write_jsonl(tmp_path / "q.jsonl", [{"question": "How much?", "answer": "6"}] * 2)
    with pytest.raises(DatasetError, match="no row has a column 'contxt'"):
        read_questions(path, Columns(**{option: "contxt"}))
    # when one row has it, then the others may lack it
    rows = [{"question": "How much?", "answer": "6"}, {"question": "Who?", "answer": "7", "contxt": "x"}]
    assert len(read_questions(write_jsonl(path, rows), Columns(**{option: "contxt"}))) == 2


def test_financebench_is_recognised_and_read_as_ever() -> None:
    assert format_of(SAMPLE) == "financebench"
    assert [question.example for question in read_questions(SAMPLE)] == load_examples(SAMPLE)


def test_a_financebench_file_whose_first_row_lacks_its_id_is_refused_as_one(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in SAMPLE.read_text().splitlines()[:2]]
    del rows[0]["financebench_id"]
    assert "line 1: financebench_id is missing" in faults(write_jsonl(tmp_path / "q.jsonl", rows))
    other = [{"question": "?", "answer": "1", "evidence": evidence} for evidence in ("a page", ["a page"], [{}], None)]
    assert format_of(write_jsonl(tmp_path / "other.jsonl", other)) == "jsonl"
    assert len(read_questions(tmp_path / "other.jsonl")) == len(other)


def test_a_split_is_picked_by_name_and_an_unknown_one_names_those_there_are() -> None:
    assert in_split(EXPECTED, "test") == (EXPECTED[1],)
    with pytest.raises(DatasetError, match="'validation'; the splits: 'test', 'train'"):
        in_split(EXPECTED, "validation")
    with pytest.raises(DatasetError, match="no row names one"):
        in_split([SplitExample(EXPECTED[0].example, "")], "train")
