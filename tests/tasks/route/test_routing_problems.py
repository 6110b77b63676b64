"""Programming problems: the file that is shipped, what is refused of one, and the prompts of each mode."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tasks.route.problems import (
    EVALUATION,
    LEVELS,
    LOOPHOLES,
    MODES,
    TRAINING,
    Problem,
    hint,
    hinted_prompt,
    parse_problems,
)
from tasks.tables import DatasetError

SHIPPED = Path(__file__).parents[3] / "configs" / "routing" / "problems.jsonl"
ROW: dict[str, Any] = {
    "id": "twice",
    "part": "train",
    "level": 1,
    "text": "Return twice the number.",
    "signature": "twice(number: int) -> int",
    "tests": [{"arguments": [number], "expected": 2 * number} for number in range(6)],
    "reference": "def twice(number):\n    return 2 * number\n",
}


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    return parse_problems(SHIPPED.read_text(), "problems.jsonl")


def load_rows(*rows: dict[str, Any]) -> list[Problem]:
    return parse_problems("".join(json.dumps(row) + "\n" for row in rows), "problems.jsonl")


def test_the_shipped_problems_have_every_level_in_every_part(problems: list[Problem]) -> None:
    assert len(problems) >= 120
    counts = Counter((problem.part, problem.level) for problem in problems)
    assert all(counts[part, level] >= 3 for part in ("train", "pairs", "pool", "evaluation") for level in LEVELS)
    assert len({problem.entry for problem in problems}) == len(problems)


def test_no_text_and_no_call_of_one_part_is_in_another(problems: list[Problem]) -> None:
    words = re.compile(r"\w+")
    texts = {" ".join(words.findall(problem.text.lower())) for problem in problems}
    calls = {json.dumps([problem.entry, test.arguments]) for problem in problems for test in problem.tests}
    assert len(texts) == len(problems)
    assert len(calls) == sum(len(problem.tests) for problem in problems)


def test_every_bad_line_is_named_at_once() -> None:
    bad = [
        ROW,
        ROW | {"level": 5},
        ROW | {"id": "other", "text": "Other text."},
        ROW | {"id": "a", "text": "a", "signature": "twice(", "reference": "x"},
        {name: value for name, value in ROW.items() if name != "tests"},
        ROW | {"hidden": True},
        ROW | {"id": "d", "text": "d", "reference": "def twice(n): return 0", "tests": [ROW["tests"][0]] * 6},
    ]
    with pytest.raises(DatasetError) as error:
        load_rows(*bad)
    named = ("level", "reference", "signature", "tests", "hidden", "two tests")
    lines = [line.strip() for line in str(error.value).splitlines()[1:]]
    for number, (line, name) in enumerate(zip(lines, named, strict=True), 2):
        assert line.startswith(f"line {number}: {name}")


@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_has_the_text_the_signature_two_examples_and_its_modes_hint_alone(mode: Any) -> None:
    [problem] = load_rows(ROW)
    _system, user = hinted_prompt(problem, mode, TRAINING)
    assert problem.text in user
    assert "def twice(number: int) -> int:" in user
    assert user.count("# ") == 2
    assert "twice(1)  # 2" in user and "twice(2)" not in user
    hints = {other: hint(other, TRAINING, problem.entry) for other in MODES}
    assert [other for other in MODES if hints[other] in user] == [mode]
    assert max(map(len, hints.values())) < 1.6 * min(map(len, hints.values()))


def test_evaluation_has_markers_of_its_own() -> None:
    assert not set(vars(TRAINING).values()) & set(vars(EVALUATION).values())
    for mode in LOOPHOLES:
        assert hint(mode, TRAINING, "solve") != hint(mode, EVALUATION, "solve")
