"""The shipped questions: made by a seed, solvable from their pages, and alike in every split."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.judging.exact_number import final_number
from tasks.questions import in_split, read_questions
from tasks.tables import format_of

FOLDER = Path(__file__).parents[2] / "configs/data"
SHIPPED = FOLDER / "sample_questions.jsonl"
ROWS = [json.loads(line) for line in SHIPPED.read_text("utf-8").splitlines()]
SPLITS = ("train", "validation", "test")
TERM = r"[\d.]+"
CALCULATION = re.compile(rf"({TERM}(?: [-+*/] {TERM})*) = ({TERM})(%?)")


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


@pytest.mark.parametrize("split", SPLITS)
def test_a_page_states_what_is_looked_up_once_and_what_is_worked_out_never(split: str) -> None:
    for row in (row for row in ROWS if row["split"] == split):
        page = row["context"]
        assert 45 <= len(page.split()) <= 90, row
        assert "{" not in page + row["question"] + row["answer"] + row["rationale"], row
        times = len(re.findall(rf"(?<![\d.,]){re.escape(row['answer'])}", page))
        assert times == (row["kind"] == "lookup"), row


@pytest.mark.parametrize("split", SPLITS)
def test_every_calculation_uses_figures_of_the_page_and_ends_with_the_answer(split: str) -> None:
    for row in (row for row in ROWS if row["split"] == split and row["kind"] == "arithmetic"):
        text = row["context"] + row["question"]
        known = {number.replace(",", "") for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}
        calculations = CALCULATION.findall(row["rationale"])
        assert len(calculations) == row["rationale"].count("=") >= 1
        for terms, result, percent in calculations:
            assert set(re.findall(TERM, terms)) <= known, row
            value = eval(terms)  # digits and operators alone, by the pattern
            assert value == pytest.approx(float(result) / (100 if percent else 1)), row
            known.add(result)
        assert final_number(row["answer"].removesuffix(" million")) == final_number(row["rationale"]), row
