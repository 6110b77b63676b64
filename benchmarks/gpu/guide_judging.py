"""Judging tickets under given experiences, and what the letters of the verdicts say.

A candidate is read from the first line of its answer: what follows it cannot change the verdict, and is not generated.
`gpu_guide_form.json` says how many whole answers keep the three lines.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.gpu.guide_asking import Asking
from benchmarks.gpu.guide_prompts import messages_for
from benchmarks.gpu.guide_shapes import SHAPES
from benchmarks.gpu.guide_verdicts import FIRST_LINE, LETTERS, SAMPLED, first_verdict, scores
from orchestrator.guide.stage_a import parse_ticket
from orchestrator.guide.tickets.generate import generate_tickets
from orchestrator.guide.tickets.missions import PLANS
from orchestrator.guide.tickets.plan import MissionPlan, with_rules
from tasks.guide.decoding import preview_seed
from tasks.guide.figures import LEVEL, Measure
from tasks.guide.gate import TicketScores
from tasks.guide.prompting import PromptForm
from tasks.guide.ticket import Ticket

RESAMPLES = 2_000
Experiences = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class JudgeUnit:
    """Tickets of one mission under experiences: greedy, and `candidates` - 1 samples of the first `sampled` tickets.

    `name` and `part` say to whoever asks what it is; `part` is that of the generator too.
    """

    name: str
    shape: str
    mission: int
    seed: int
    part: str
    count: int
    sampled: int
    experiences: Experiences
    prompt: PromptForm
    candidates: int = len(SAMPLED)


def plan_of(shape: str, mission: int) -> MissionPlan:
    return with_rules(PLANS[mission], SHAPES[shape].rules)


def generated(shape: str, mission: int, count: int, seed: int, part: str) -> list[Ticket]:
    made = generate_tickets(plan_of(shape, mission), count, seed, shape=SHAPES[shape].shape, part=part)
    return [parse_ticket(ticket.line)[0] for ticket in made]


def judge(asking: Asking, unit: JudgeUnit) -> dict[str, Any]:
    """The letters of the labels, of the greedy verdicts, and of all candidates of the sampled tickets, greedy first."""
    plan, experiences = plan_of(unit.shape, unit.mission), dict(unit.experiences)
    tickets = generated(unit.shape, unit.mission, unit.count, unit.seed, unit.part)
    asked = []
    for place, ticket in enumerate(tickets):
        messages = messages_for(plan, experiences, ticket, unit.prompt)
        for number, (temperature, top_p) in enumerate(SAMPLED[: unit.candidates if place < unit.sampled else 1]):
            cell = replace(FIRST_LINE, temperature=temperature, top_p=top_p)
            seed = preview_seed(cell, unit.seed, ticket.group_id, number)
            asked.append((messages, replace(cell, seed=seed)))
    answers = asking.answers(asked)
    letters = "".join(LETTERS[first_verdict(answer.text)] for answer in answers)
    end = min(unit.sampled, len(tickets)) * unit.candidates
    greedy = letters[: end : unit.candidates] + letters[end:]
    return {
        "labels": "".join(LETTERS[ticket.label] for ticket in tickets),
        "greedy": greedy,
        "sampled": letters[:end],
        "tokens": sum(answer.completion_tokens for answer in answers),
    }


def greedy_scores(found: Mapping[str, Any]) -> tuple[TicketScores, ...]:
    return scores(found["labels"], found["greedy"])


def sampled_scores(found: Mapping[str, Any], candidates: int = len(SAMPLED)) -> tuple[TicketScores, ...]:
    """All candidates of the tickets that were sampled."""
    count = len(found["sampled"]) // candidates
    return scores(found["labels"][:count], found["sampled"]) if count else ()


def clustered_mean(groups: Sequence[Sequence[float]], seed: int = 0) -> Measure:
    """The mean of the groups' means, with a percentile bootstrap over groups and over values within each.

    `count` is the number of groups.
    """
    groups = [group for group in groups if group]
    if not groups:
        return Measure(None, None, None, 0)

    def mean_of(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    rng = random.Random(seed)
    drawn = sorted(
        mean_of([mean_of(rng.choices(group, k=len(group))) for group in rng.choices(groups, k=len(groups))])
        for _ in range(RESAMPLES)
    )
    low, high = (drawn[round(place * (RESAMPLES - 1))] for place in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    value = mean_of([mean_of(group) for group in groups])
    return Measure(value, min(value, low), max(value, high), len(groups))
