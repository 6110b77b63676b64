"""What is larger than any use needs is refused where it enters, by name, and without the memory it would take."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.history import read_history
from orchestrator.output import OutputError, OutputFolder, read_json
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import read_mapping
from tasks import limits
from tasks.dataset import DatasetError, load_examples, read_lines
from tasks.files import FileTooLarge, read_limited
from tasks.judging.rows import read_answer_rows
from tasks.judging.user_function import UserFunctionError, load_function
from tasks.questions import read_questions
from tasks.validation import InvalidData, parse_json


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * 1_000_000
    finally:
        tracemalloc.stop()


def row(**fields: Any) -> dict[str, Any]:
    page = {"doc_name": "d", "evidence_page_num": 1, "evidence_text_full_page": "a page"}
    return {"financebench_id": "a", "question": "why?", "answer": "4", "evidence": [page]} | fields


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"question": "x" * 2_000_000}, "line 1: question is longer than 1,000,000 bytes"),
        ({"answer": "x" * 6_000_000}, "line 1: answer is longer than 20,000 bytes"),
        ({"financebench_id": "x" * 2000}, "line 1: financebench_id is longer than 1,000 bytes"),
        (
            {"evidence": [row()["evidence"][0] | {"evidence_page_num": n, "evidence_text_full_page": "x" * 990_000}
                          for n in range(5)]},
            "line 1: evidence is longer than 4,000,000 bytes",
        ),
        ({"question": "x" * 48_000_000}, "line 1: the row is longer than 16,777,216 bytes"),
    ],
)  # fmt: skip
def test_a_question_is_refused_by_the_field_that_is_too_long(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(row(**fields)) + "\n")
    with at_most(100), pytest.raises(DatasetError, match=says):
        load_examples(path)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("q.jsonl", json.dumps({"question": "x" * 2_000_000, "answer": "4"}), "question is longer than 1,000,000"),
        ("q.jsonl", json.dumps({"question": "why?", "answer": "4" * 200_000}), "answer is longer than 20,000"),
        ("q.csv", f"question,answer\nwhy?,{'x' * 200_000}\n", "answer is longer than 20,000"),
        ("q.csv", f"question,answer\nwhy?,{'x' * 48_000_000}\n", "line 2 is longer than 16,777,216"),
    ],
)
def test_rows_of_other_formats_have_the_same_limits(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with at_most(150), pytest.raises(DatasetError, match=says):
        read_questions(tmp_path / name)


@dataclass(frozen=True)
class Listed:
    numbers: list[float]
    by_name: Mapping[str, tuple[float, ...]]


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (list[float], ["x"] * 200_000, r"\[0\]: 'x' is not a number"),
        (dict[str, float], {str(n): "x" for n in range(200_000)}, "^0: 'x' is not a number"),
        (Listed, {"numbers": ["x"] * 200_000, "by_name": {}}, r"numbers\[0\]: 'x' is not a number"),
        (Listed, {"numbers": [], "by_name": {"a": ["x"] * 200_000}}, r"by_name.a\[0\]: 'x' is not a number"),
    ],
)
def test_of_many_wrong_values_the_first_is_named_and_the_others_take_no_memory(
    kind: Any, value: Any, says: str
) -> None:
    text = json.dumps(value)
    with at_most(5), pytest.raises(InvalidData, match=says):
        parse_json(kind, text)


def test_rows_to_judge_have_limits_too(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"question": "why?", "gold": "x" * 6_000_000, "answer": "4"}))
    with pytest.raises(DatasetError, match="line 1: gold is longer than 20,000 bytes"):
        read_answer_rows(path)


def test_a_pipe_or_a_device_is_no_file_of_rows(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.jsonl")
    for path in (tmp_path / "rows.jsonl", Path("/dev/zero"), tmp_path):
        with pytest.raises(DatasetError, match="cannot be read: it is no regular file"):
            next(read_lines(path))


def test_a_file_of_too_many_rows_is_refused_and_of_many_faults_the_first_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"1\n" * (limits.ROWS + 1))
    with pytest.raises(DatasetError, match="more than 1,000,000 rows"):
        sum(1 for _ in read_lines(path))
    path.write_bytes(b"1\n" * 1000)
    with pytest.raises(DatasetError, match=r"1000 faults") as raised:
        load_examples(path)
    assert len(str(raised.value).splitlines()) == 52 and str(raised.value).endswith("and 950 more")


def test_files_that_are_read_whole_have_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"#" * (limits.SETTINGS_BYTES + 1))
    with pytest.raises(SettingsError, match="more than 1,048,576 bytes"):
        read_mapping(path)
    assert read_limited(path, limits.SETTINGS_BYTES + 1) == path.read_bytes()
    with pytest.raises(FileTooLarge):
        read_limited(Path("/dev/zero"), 1000, pipes=True)


def test_a_state_file_beyond_its_limit_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = OutputFolder(tmp_path).path / "usage.json"
    with path.open("wb") as file:
        file.truncate(limits.HISTORY_BYTES + 1)  # takes no room on the disk
    with (
        at_most(200),
        pytest.raises(OutputError, match=r"usage\.json cannot be read: .* 67,108,864 bytes"),
    ):
        read_json(path, dict)
    with pytest.raises(OutputError, match="more than 268,435,456 bytes"):
        read_history(path)


def endless_reason(question: str, gold: str, answer: str) -> tuple[bool, str]:
    return True, "x" * 50_000_000


class Silent:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def no_verdict(question: str, gold: str, answer: str) -> Any:
    return Silent()


@pytest.mark.parametrize(
    ("name", "says"),
    [("endless_reason", "a reason of 50,000,000 characters"), ("no_verdict", "a value without a text .RuntimeError.")],
)
def test_what_a_judge_of_the_users_own_returns_is_bounded(name: str, says: str) -> None:
    with pytest.raises(UserFunctionError, match=says):
        load_function(f"{__name__}:{name}").grade("why?", "4", "4")
