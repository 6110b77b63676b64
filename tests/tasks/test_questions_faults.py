"""Every fault of a file of questions, by its line and column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from question_files import ROWS, faults, write_arrow_folder, write_jsonl, write_parquet

from tasks.dataset import DatasetError
from tasks.questions import Columns, read_questions
from tasks.tables import format_of


def test_all_faults_are_said_at_once_by_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    good = json.dumps(ROWS[0])
    lines = [
        good,
        '{"id": "c", "question": " ", "answer": null}',
        "{",
        '{"id": "d", "question": ["x"], "answer": true, "context": {"a": 1}, "split": ["x"]}',
        "",
        good,
        '["a list"]',
        '{"id": "e", "answer": "1"}',
        '{"id": "f", "question": "How many?", "answer": NaN}',
    ]
    path.write_text("\n".join(lines), "utf-8")

    said = faults(path).splitlines()[1:]

    assert [line.strip() for line in said] == [
        "line 2: column question is empty",
        "line 2: column answer is null",
        "line 3: invalid JSON at column 2: Expecting property name enclosed in double quotes",
        "line 4: column question is not text",
        "line 4: column answer is not text",
        "line 4: column context is not text",
        "line 4: column split is not text",
        "line 6: column 'id': 'a' is already in line 1",
        "line 7: not a JSON object",
        "line 8: column question is missing",
        "line 9: column answer is not text",
    ]


def test_many_faults_are_counted_and_the_first_listed(tmp_path: Path) -> None:
    said = faults(write_jsonl(tmp_path / "q.jsonl", [{"question": "?"}] * 200))
    assert "200 faults" in said
    assert said.splitlines()[-1].strip() == "and 150 more"
    assert len(said.splitlines()) == 52


def test_faults_of_a_csv_have_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text('id,question,answer\na,"How\nmuch?",5\nb,Who?\nc,Who?,x,y\nd,,1\n', "utf-8")
    said = faults(path)
    assert "line 4: the row ends before column 'answer'" in said
    assert "line 5: 1 more cells than the header has" in said
    assert "line 6: column question is empty" in said
    assert "line 3" not in said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no column 'question' and no column 'answer'; it has []"),
        (b"id,question\na,b\n", "no column 'answer'; it has ['id', 'question']"),
        (b"question,answer\n", "no rows"),
        (b"question,answer\n\xff,1\n", "invalid UTF-8"),
        (b'question,answer\n"a,1\n', "line 2: unexpected end of data"),
    ],
)
def test_a_csv_that_is_none_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "q.csv"
    path.write_bytes(content)
    assert says in faults(path)


def test_files_that_are_missing_or_damaged_are_refused(tmp_path: Path) -> None:
    assert "q.csv" in faults(tmp_path / "q.csv")
    parquet = write_parquet(tmp_path / "q.parquet", ROWS)
    parquet.write_bytes(parquet.read_bytes()[:-20])
    assert "q.parquet" in faults(parquet)
    folder = write_arrow_folder(tmp_path / "saved", ROWS)
    (folder / "data-00000-of-00001.arrow").write_bytes(b"nothing")
    assert faults(folder)
    (folder / "state.json").write_text("{")
    assert faults(folder)


def test_a_parquet_file_names_rows_and_columns(tmp_path: Path) -> None:
    said = faults(write_parquet(tmp_path / "q.parquet", [{**ROWS[0], "question": None}, {**ROWS[1], "answer": ""}]))
    assert "row 1: column question is null" in said
    assert "row 2: column answer is empty" in said
    assert "no column 'question'" in faults(write_parquet(tmp_path / "other.parquet", [{"q": 1, "answer": "x"}]))


def test_a_parquet_file_with_two_columns_of_one_name_or_a_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = [pyarrow.array(["q"]), pyarrow.array(["1"]), pyarrow.array(["2"])]
    twice = pyarrow.Table.from_arrays(texts, names=["question", "answer", "answer"])
    parquet.write_table(twice, tmp_path / "twice.parquet")
    assert "two columns are named 'answer'" in faults(tmp_path / "twice.parquet")
    bytes_as_text = pyarrow.array([b"\xff"]).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"question": bytes_as_text, "answer": ["1"]}), tmp_path / "bytes.parquet")
    assert "can't decode byte 0xff" in faults(tmp_path / "bytes.parquet")


@pytest.mark.parametrize("name", ["q.xlsx", "questions"])
def test_an_unknown_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DatasetError, match=name):
        format_of(tmp_path / name)


@pytest.mark.parametrize("change", [{"question": ""}, {"answer": ""}, {"answer": "question"}, {"id": "split"}])
def test_columns_without_a_question_or_with_one_name_twice_are_refused(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="five different names"):
        Columns(**change)


NAMES = st.sampled_from(["id", "question", "answer", "context", "split", "x"])
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.text(max_size=3))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(NAMES, VALUES), max_size=4))
def test_whatever_a_row_holds_it_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    path = write_jsonl(tmp_path_factory.mktemp("rows") / "q.jsonl", rows)
    try:
        questions = read_questions(path)
    except DatasetError:
        return
    assert len(questions) == len(rows) > 0
    assert all(q.example.question.strip() and q.example.gold.strip() for q in questions)
