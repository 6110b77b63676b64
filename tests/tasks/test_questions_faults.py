"""Every fault of a file of questions, by its line and column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from question_files import ROWS, faults, write_jsonl, write_parquet

from tasks import tables
from tasks.questions import read_questions
from tasks.tables import DatasetError


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


def test_faults_of_a_csv_have_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text('id,question,answer\na,"How\nmuch?",5\nb,Who?\nc,Who?,x,y\nd,,1\n', "utf-8")
    said = faults(path)
    assert "line 4: the row ends before column 'answer'" in said
    assert "line 5: 1 more cells than the header has" in said
    assert "line 6: column question is empty" in said
    assert "line 3" not in said


def test_a_parquet_file_names_rows_and_columns(tmp_path: Path) -> None:
    said = faults(write_parquet(tmp_path / "q.parquet", [{**ROWS[0], "question": None}, {**ROWS[1], "answer": ""}]))
    assert "row 1: column question is null" in said
    assert "row 2: column answer is empty" in said
    assert "no column 'question'" in faults(write_parquet(tmp_path / "other.parquet", [{"q": 1, "answer": "x"}]))


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


def test_a_parquet_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    """Two million times one text take a few kilobytes: the footer's number of rows is checked before any is read."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def write(rows: int, length: int) -> Path:
        texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), ["x" * length])
        parquet.write_table(pyarrow.table({"question": texts, "answer": texts}), tmp_path / "q.parquet")
        return tmp_path / "q.parquet"

    path = write(2_000_000, 1000)
    assert path.stat().st_size < 1_000_000
    assert "more than 1,000,000 rows" in faults(path)
    # And so are rows whose texts together are too long for a process
    monkeypatch.setattr(tables, "TABLE_BYTES", 1_000_000)
    assert "more than 1,000,000 bytes" in faults(write(2000, 1000))
