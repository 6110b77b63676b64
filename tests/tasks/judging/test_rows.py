"""Rows to judge: read in order, or every malformed one named at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.questions import AnswerRow, read_answer_rows
from tasks.tables import DatasetError

GOOD = {"question": "How much?", "gold": "$5", "answer": "5 dollars"}


def test_rows_come_in_order_blank_lines_and_other_fields_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    empty = json.dumps(GOOD | {"answer": "", "model": "x"})
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n\n" + empty.encode())
    assert read_answer_rows(path) == [AnswerRow("How much?", "$5", "5 dollars"), AnswerRow("How much?", "$5", "")]


def test_every_malformed_row_is_named_by_its_line(tmp_path: Path) -> None:
    # given good rows among rows that are malformed, each in another way
    lines = [
        json.dumps(GOOD).encode(),
        b"{",
        json.dumps(GOOD | {"gold": None, "question": ""}).encode(),
        b'{"question": "a", "gold": "b"}',
        json.dumps(GOOD | {"answer": 5}).encode(),
        b"[1]",
        b'{"question": "\xff"}',
        json.dumps(GOOD | {"answer": "\ud800"}).encode(),
        json.dumps(GOOD).encode(),
    ]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(lines))
    # when they are read, then one error names them all
    with pytest.raises(DatasetError) as error:
        read_answer_rows(path)
    told = str(error.value).splitlines()
    assert told[0].startswith(f"{path}: 7 ")
    assert [line.split(":")[0].strip() for line in told[1:]] == [f"line {n}" for n in range(2, 9)]
    assert "question is empty; gold is null" in told[2]
    assert "answer is missing" in told[3]
    assert "answer is not text" in told[4]


@pytest.mark.parametrize("content", [None, b"", b"\n\n"])
def test_a_file_without_rows_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"rows\.jsonl"):
        read_answer_rows(path)
