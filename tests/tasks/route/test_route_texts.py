"""Problems and pairs from texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.dataset import DatasetError
from tasks.route.texts import pairs_of, problems_of

SHIPPED = Path(__file__).parents[3] / "configs" / "routing"


def test_texts_are_read_as_their_files_are() -> None:
    problems = problems_of((SHIPPED / "problems.jsonl").read_text())
    assert {problem.part for problem in problems} == {"train", "pairs", "pool", "evaluation"}
    text = (SHIPPED / "pairs.jsonl").read_text()
    assert len(pairs_of(text, "pairs", problems)) == len(text.splitlines())
    with pytest.raises(DatasetError, match="line 2: prompt: is missing"):
        pairs_of(text.replace("\n", "\n{}\n", 1), "pairs", problems)
