"""Rows to judge: one JSON object a line with question, gold and answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.common.validation import ANSWER_BYTES, GOLD_BYTES, QUESTION_BYTES
from tasks.dataset import DatasetError, json_object, malformed, read_lines, text_field


@dataclass(frozen=True)
class AnswerRow:
    """What is judged. Rows with the same texts are equal, and have one verdict."""

    question: str
    gold: str
    answer: str


def read_answer_rows(path: Path) -> list[AnswerRow]:
    """The rows of a JSONL file, in order; blank lines are passed over, other fields of a row ignored."""
    rows: list[AnswerRow] = []
    faults: list[str] = []
    for number, line in read_lines(path):
        try:
            rows.append(parse_answer_row(line))
        except DatasetError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        raise malformed(path, faults)
    if not rows:
        raise DatasetError(f"{path}: no rows")
    return rows


def parse_answer_row(line: bytes) -> AnswerRow:
    values = json_object(line)
    faults: list[str] = []
    question, gold = (
        text_field(values, "question", faults, QUESTION_BYTES),
        text_field(values, "gold", faults, GOLD_BYTES),
    )
    answer = _answer(values, faults)
    if faults:
        raise DatasetError("; ".join(faults))
    return AnswerRow(question, gold, answer)


def _answer(values: dict[str, Any], faults: list[str]) -> str:
    """An empty answer is one: it is judged, and wrong."""
    given = values.get("answer")
    return given if isinstance(given, str) and not given.strip() else text_field(values, "answer", faults, ANSWER_BYTES)
