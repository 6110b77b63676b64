"""Files of questions in every format, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks.questions import SplitExample, read_questions
from tasks.records import Example
from tasks.tables import DatasetError

ROWS = [
    {"id": "a", "split": "train", "question": "How much?", "context": 'It was "5", then\n6.', "answer": "6"},
    {"id": "b", "split": "test", "question": "Who, and when?", "context": "", "answer": "Ünal"},
]
EXPECTED = [
    SplitExample(Example("a", 'It was "5", then\n6.', "How much?", "6"), "train"),
    SplitExample(Example("b", "", "Who, and when?", "Ünal"), "test"),
]


def write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def write_csv(path: Path, rows: Sequence[dict[str, Any]], delimiter: str = ",") -> Path:
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


def faults(path: Path, **options: Any) -> str:
    with pytest.raises(DatasetError) as caught:
        read_questions(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)
