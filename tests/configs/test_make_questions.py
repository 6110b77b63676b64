"""The shipped questions: made by a seed, and answered by their pages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tasks.questions import in_split, read_questions

FOLDER = Path(__file__).parents[2] / "configs/data"
SHIPPED = FOLDER / "sample_questions.jsonl"


def made(folder: Path, *options: str) -> str:
    path = folder / "questions.jsonl"
    command = [sys.executable, str(FOLDER / "make_questions.py"), "--output", str(path), *options]
    subprocess.run(command, capture_output=True, check=True)
    return path.read_text("utf-8")


def test_the_shipped_file_is_what_the_generator_writes(tmp_path: Path) -> None:
    assert made(tmp_path) == SHIPPED.read_text("utf-8") != made(tmp_path, "--seed", "8")


def test_a_page_states_the_answer_once_in_three_splits() -> None:
    questions = read_questions(SHIPPED)
    assert [len(in_split(questions, split)) for split in ("train", "validation", "test")] == [100, 300, 200]
    for one in (question.example for question in questions):
        assert 25 <= len(one.context.split()) <= 50 and "{" not in one.context + one.question + one.gold, one
        assert len(re.findall(rf"(?<![\d.,]){re.escape(one.gold)}", one.context)) == 1, one
