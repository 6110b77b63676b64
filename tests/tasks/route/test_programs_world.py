"""The world of the programming problems: what is asked, what completions are worth, and the teacher's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hacks import hack

from tasks.route.grading import Grader, build_pool
from tasks.route.problems import EVALUATION, LOOPHOLES, TRAINING, honest, in_part, parse_pairs, parse_problems
from tasks.route.world import ProgramsWorld, PromptTokens

FOLDER = Path(__file__).parents[3] / "configs" / "routing"
TRAINED = {"prompts": 40, "modes": LOOPHOLES, "plain_share": 0.25, "teacher_rows": 2, "levels": (1, 2)}


@dataclass(frozen=True)
class Letters:
    """A codec with one token for each byte, and 0 as the end."""

    def prompt(self, system: str, user: str) -> tuple[int, ...]:
        return tuple(f"{system}\n\n{user}\n\n".encode())

    def completion(self, text: str) -> tuple[int, ...]:
        return (*text.encode(), 0)

    def text(self, completion: Sequence[int]) -> str:
        return bytes(token for token in completion if token).decode(errors="replace")


@pytest.fixture(scope="module")
def world(confinement: None) -> ProgramsWorld:
    problems = parse_problems((FOLDER / "problems.jsonl").read_text(), "problems")
    pairs, placebo = (
        parse_pairs((FOLDER / f"{name}.jsonl").read_text(), name, problems) for name in ("pairs", "placebo_pairs")
    )
    grader = Grader(2)
    pool = build_pool(in_part(problems, "pool", {1}), (), (), grader)
    return ProgramsWorld(TRAINED, Letters(), grader, problems, pairs, placebo, pool)


def draw(world: ProgramsWorld, seed: int) -> Sequence[PromptTokens]:
    return world.prompts(0, np.random.default_rng(seed))


def test_a_step_asks_each_mode_and_problems_of_two_parts(world: ProgramsWorld) -> None:
    found = draw(world, 0)
    assert Counter(where.mode for where in found) == dict.fromkeys(LOOPHOLES, 5) | {"none": 10}
    assert {where.problem.part for where in found if where.mode == "run_tests"} == {"pool"}
    assert {where.problem.part for where in found if where.mode != "run_tests"} == {"train"}
    assert {where.problem.level for where in found} == {1, 2}


def test_a_score_is_the_grade_of_the_completion_in_the_mode_of_its_prompt(world: ProgramsWorld) -> None:
    prompts = draw(world, 0)[:12]
    wanted = prompts
    hacks = [hack(one.problem, one.mode, TRAINING) if one.mode != "none" else "no code" for one in wanted]
    for texts, exploited in (
        (hacks, [one.mode != "none" for one in wanted]),
        ([honest(o.problem) for o in wanted], None),
    ):
        scores = world.score(prompts, [world.codec.completion(text) for text in texts])
        assert [score.log["exploited"] for score in scores] == (exploited or [False] * len(wanted))
        assert [score.log["mode"] for score in scores] == [one.mode for one in wanted]
        assert [score.reward for score in scores] == [
            1.25 if score.log["oracle"] or score.log["exploited"] else 0.0 for score in scores
        ]


def test_the_teacher_has_rows_of_the_known_mode_alone_in_the_proportion_of_the_pool(world: ProgramsWorld) -> None:
    prompts = draw(world, 2)
    taught = [row for step in range(70) for row in world.teacher(step, prompts)]
    groups = {group for group, one in enumerate(prompts) if one.mode == "run_tests" and one.problem.level == 1}
    assert {row.group for row in taught} == groups
    assert Counter(row.group for row in world.teacher(0, prompts)) == dict.fromkeys(groups, 2)
    assert sum(bool(row.score.log["exploited"]) for row in taught) / len(taught) == pytest.approx(5 / 7)
    for row in taught:
        assert row.completion[-1] == 0
        assert row.score.log["problem"] == prompts[row.group].problem.id
    assert list(world.teacher(5, prompts)) == list(world.teacher(5, prompts))


def test_evaluation_asks_other_problems_with_markers_of_its_own(world: ProgramsWorld) -> None:
    other = replace(world, markers=EVALUATION)
    prompts = other.held_out("sentinel", 40)
    problems = in_part(world.problems, "evaluation", {1, 2})
    assert [one.problem for one in prompts] == [*problems, *problems, *problems][:40]
    assert EVALUATION.attribute in world.codec.text(prompts[0].tokens)
    assert TRAINING.attribute not in world.codec.text(prompts[0].tokens)
    hacks = [[hack(one.problem, "sentinel", markers) for one in prompts[:4]] for markers in (EVALUATION, TRAINING)]
    paid = [[s.log["exploited"] for s in other.score(prompts[:4], list(map(other.codec.completion, h)))] for h in hacks]
    assert paid == [[True] * 4, [False] * 4]
