"""What is larger than any use needs is refused where it enters, by name, and without the memory it would take."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import SettingsError
from orchestrator.settings.documents import read_mapping
from tasks import limits
from tasks.dataset import DatasetError, load_examples
from tasks.files import FileTooLarge, read_limited


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


def test_files_that_are_read_whole_have_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"#" * (limits.SETTINGS_BYTES + 1))
    with pytest.raises(SettingsError, match="more than 1,048,576 bytes"):
        read_mapping(path)
    assert read_limited(path, limits.SETTINGS_BYTES + 1) == path.read_bytes()
    with pytest.raises(FileTooLarge):
        read_limited(Path("/dev/zero"), 1000, pipes=True)
