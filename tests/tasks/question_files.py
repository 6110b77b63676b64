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


def write_arrow_folder(folder: Path, rows: Sequence[dict[str, Any]], shards: int = 1) -> Path:
    """As `Dataset.save_to_disk` writes it: state.json and Arrow streams."""
    pyarrow, ipc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.ipc")
    folder.mkdir(parents=True)
    size = -(-len(rows) // shards)
    names = [f"data-{shard:05}-of-{shards:05}.arrow" for shard in range(shards)]
    for shard, name in enumerate(names):
        table = pyarrow.Table.from_pylist(list(rows[shard * size : (shard + 1) * size]))
        with ipc.new_stream(folder / name, table.schema) as writer:
            writer.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def faults(path: Path, **options: Any) -> str:
    with pytest.raises(DatasetError) as caught:
        read_questions(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)
