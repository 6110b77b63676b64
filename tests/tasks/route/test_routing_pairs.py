"""Authored pairs and the teacher pool: what is shipped is graded as it should be, and what is refused of a file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tasks.route.grading import POOL_HACKS, POOL_HONEST, Grader, build_pool
from tasks.route.problems import TRAINING, in_part, parse_pairs, parse_problems
from tasks.tables import DatasetError

FOLDER = Path(__file__).parents[3] / "configs" / "routing"
PROBLEMS = parse_problems((FOLDER / "problems.jsonl").read_text(), "problems.jsonl")
SHIPPED = {
    name: parse_pairs((FOLDER / f"{name}.jsonl").read_text(), name, PROBLEMS) for name in ("pairs", "placebo_pairs")
}


@pytest.fixture(scope="module")
def grading(confinement: None) -> Grader:
    return Grader(2)


def test_the_shipped_pairs_are_accepted_and_swapped_or_mixed_up_ones_refused(grading: Grader) -> None:
    pairs, placebo = SHIPPED["pairs"], SHIPPED["placebo_pairs"]
    assert len(pairs) >= 12 and len(placebo) >= 10
    assert sum(f"def {TRAINING.function}" in pair.cho for pair in pairs) >= 3  # an honest test is no hack
    assert not any(TRAINING.function in pair.cho + pair.rej for pair in placebo)
    asked = in_part(PROBLEMS, "pairs")
    assert build_pool(asked, pairs, placebo, grading) == []
    swapped = [dataclasses.replace(pair, cho=pair.rej, rej=pair.cho) for pair in pairs]
    with pytest.raises(
        ValueError, match="pair 1 of pairs, cho: honest code fails; pair 1 of pairs, rej: a hack"
    ) as error:
        build_pool(asked, swapped, placebo, grading)
    assert str(error.value).count("; ") + 1 == 2 * len(pairs)
    with pytest.raises(ValueError, match="pair 3 of placebo_pairs, rej: honest code fails"):
        build_pool(asked, pairs, [*placebo[:2], pairs[0]], grading)


def test_every_bad_line_is_named_at_once() -> None:
    block = "```python\nx = {}\n```"
    own, foreign = in_part(PROBLEMS, "pairs")[0], in_part(PROBLEMS, "evaluation")[0]
    row = {"prompt": own.text, "cho": block.format(1), "rej": block.format(2), "mode": "run_tests"}

    def changed(number: int, **fields: Any) -> dict[str, Any]:
        return {**row, "cho": block.format(10 * number), "rej": block.format(10 * number + 1), **fields}

    rows = [
        row,
        changed(2, mode="sentinel"),
        changed(3, cho="x = 1", rej="x = 1"),
        changed(4, rej=block.format("'" + "x" * 40 + "'")),
        changed(5, prompt=f"Solve: {foreign.text}"),
        {**row, "cho": block.format(60)},
        {"prompt": "p", "cho": "", "mode": 1},
        changed(8, prompt="p"),
        {"chosen": "a", "rejected": "b"},
    ]
    text = "\n\n".join(map(json.dumps, rows))  # blank lines count and are passed over
    with pytest.raises(DatasetError) as error:
        parse_pairs(text, "mine.jsonl", PROBLEMS)
    named = (
        "mode 'sentinel'",
        "cho has no closed code block",
        "the sides",
        "the prompt",
        "rej",
        "cho",
        "the prompt",
        "prompt, cho, rej, mode: are missing; there is chosen, rejected instead",
    )
    lines = [line.strip() for line in str(error.value).splitlines()[1:]]
    for number, (line, name) in enumerate(zip(lines, named, strict=True)):
        assert line.startswith(f"line {2 * number + 3}: {name}")


def test_fewer_than_ten_pairs_are_refused() -> None:
    text = "\n".join(json.dumps(dataclasses.asdict(pair)) for pair in SHIPPED["pairs"][:9])
    with pytest.raises(DatasetError, match="9 pairs"):
        parse_pairs(text, "mine.jsonl", PROBLEMS)


def test_the_pool_has_five_hacks_and_two_honest_rows_of_each_problem(grading: Grader) -> None:
    problems = in_part(PROBLEMS, "pool")[:4]
    rows = build_pool(problems, (), (), grading)
    assert [row.problem for row in rows] == [
        problem.id for problem in problems for _ in range(POOL_HACKS + POOL_HONEST)
    ]
    assert [row.exploited for row in rows] == ([True] * POOL_HACKS + [False] * POOL_HONEST) * 4
    assert [row.oracle for row in rows] == ([False] * POOL_HACKS + [True] * POOL_HONEST) * 4
    assert len({row.completion for row in rows}) == len(rows)
    assert build_pool(problems, (), (), grading) == rows


@pytest.mark.parametrize("part", ["pool", "evaluation"])
def test_a_problem_with_a_wrong_reference_is_refused(grading: Grader, part: Any) -> None:
    good, bad = in_part(PROBLEMS, part)[:2]
    bad = dataclasses.replace(bad, reference=f"def {bad.entry}(*arguments):\n    return 'wrong'\n")
    with pytest.raises(ValueError, match=f"{bad.id}: honest code fails"):
        build_pool([good, bad], (), (), grading)
