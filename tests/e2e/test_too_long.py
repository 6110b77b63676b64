"""Questions that are too long for the target are named before it is asked anything, and can be dropped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folder import ROOT, RunFolder


@pytest.fixture
def long_questions(tmp_path: Path) -> Path:
    """Four questions, of which the second has a page of 60,000 characters, more than the embedded target reads."""
    lines = (ROOT / "configs" / "data" / "sample.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines[:4]]
    rows[1]["evidence"][0]["evidence_text_full_page"] += " and so on" * 6_000
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_question_that_is_too_long_ends_the_run_before_anything_is_asked(
    run_folder: RunFolder, long_questions: Path
) -> None:
    data = {"DATA_PATH": str(long_questions), "TRAINING": "0-2", "VALIDATION": "3"}
    done = run_folder.run(**data)
    assert done.returncode == 1, done.stdout
    assert "sample_id_00002 (18," in done.stdout and "more than the 8,175 tokens" in done.stdout
    assert run_folder.answered("target_requests.jsonl") == []

    # the same run goes on when it is told what to do with it
    done = run_folder.run(**data, TOO_LONG="drop", NGEN="1")
    assert done.returncode == 0, done.stdout
    assert "questions were dropped" in done.stdout and "sample_id_00002 (18," in done.stdout
    history = (run_folder.output / "history.jsonl").read_text().splitlines()
    assert len(history) == 1
    answers = json.loads((run_folder.output / "answers.json").read_text())
    assert [len(comparison["before"]) for comparison in answers] == [2, 1]
