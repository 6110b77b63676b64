"""The shipped questions: made by a seed, and answered by their pages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tasks.questions import in_split, read_questions
from tasks.tables import format_of

FOLDER = Path(__file__).parents[2] / "configs/data"
SHIPPED = FOLDER / "sample_questions.jsonl"
ROWS = [json.loads(line) for line in SHIPPED.read_text("utf-8").splitlines()]
SPLITS = ("train", "validation", "test")


def made(folder: Path, *options: str) -> tuple[str, subprocess.CompletedProcess[str]]:
    path = folder / "questions.jsonl"
    command = [sys.executable, str(FOLDER / "make_questions.py"), "--output", str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return path.read_text("utf-8") if path.exists() else "", done


def test_the_shipped_file_is_what_the_generator_writes(tmp_path: Path) -> None:
    assert made(tmp_path)[0] == SHIPPED.read_text("utf-8")
    assert made(tmp_path, "--seed", "8")[0] != SHIPPED.read_text("utf-8")


def test_it_is_read_like_any_file_in_three_splits() -> None:
    assert format_of(SHIPPED) == "jsonl"
    questions = read_questions(SHIPPED)
    assert [len(in_split(questions, split)) for split in SPLITS] == [100, 300, 200]
    assert SHIPPED.stat().st_size < 400_000


def test_a_page_states_the_answer_once() -> None:
    for row in ROWS:
        page = row["context"]
        assert 25 <= len(page.split()) <= 50, row
        assert "{" not in page + row["question"] + row["answer"] + row["rationale"], row
        assert len(re.findall(rf"(?<![\d.,]){re.escape(row['answer'])}", page)) == 1, row
