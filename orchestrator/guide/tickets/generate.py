"""Generated tickets: balanced labels, planted rules, distractors, labels that are wrong, gaps that Stage-A has left.

Equal arguments give equal tickets.  The truth about each ticket is kept apart: Stage-A's lines hold nothing of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.guide.tickets.plan import MissionPlan
from tasks.guide.verdict_lines import Verdict

IMAGES = 4
LABEL_SOURCE, LABEL_TIMESTAMP = "generated", "2025-11-03T00:00:00Z"


@dataclass(frozen=True)
class TicketTruth:
    """What is known of one ticket: its true label, the rule that it breaks (None: none), what only looks like a fault,
    and whether its label in Stage-A's line is the wrong one."""

    group_id: str
    mission: str
    label: Verdict
    broken_rule: str | None
    distractors: tuple[str, ...]
    is_mislabelled: bool
    is_complete: bool


@dataclass(frozen=True)
class GeneratedTicket:
    """A line of Stage-A, and the truth about it."""

    line: dict[str, Any]
    truth: TicketTruth


def generate_tickets(
    plan: MissionPlan,
    count: int,
    seed: int,
    *,
    noise: float = 0.0,
    gaps: int = 0,
    sentences: int = 1,
    part: str = "train",
) -> list[GeneratedTicket]:
    """`count` complete tickets of a mission, as many that pass as that fail, and `gaps` that Stage-A has not completed.

    Each failing ticket breaks one rule, and each rule is broken equally often.  A summary has so many `sentences`, 1 or
    2; half of the tickets of each label have as many distractors.  Of each label the share `noise` has the other one
    in Stage-A's line.  `part` names an independent draw: "test" has other tickets than "train".
    Raises: ValueError for an odd count, or another number that is out of range.
    """
    if count < 0 or count % 2 or gaps < 0 or not 0 <= noise <= 0.5 or sentences not in (1, 2):
        raise ValueError("count is even, gaps is not negative, noise is from 0 to 0.5, and sentences is 1 or 2")
    draw = random.Random(f"{seed}/{plan.code}/{part}")
    half = count // 2
    labels: tuple[Verdict, Verdict] = ("pass", "fail")
    made = [draft for label in labels for draft in _of_label(plan, half, label, noise, sentences, draw)]
    made += [_Draft("pass", None, (), False, False) for _ in range(gaps)]
    draw.shuffle(made)
    return [
        _ticket(plan, draft, f"{plan.code}-{part}-{number:05}", sentences, draw) for number, draft in enumerate(made)
    ]


def first_guidance_values(plans: Sequence[MissionPlan]) -> dict[str, Any]:
    """The content of a guidance file with one general experience for each mission."""
    return {plan.name: {"step": 0, "updated_at": LABEL_TIMESTAMP, "experiences": {"G0": plan.first}} for plan in plans}


@dataclass(frozen=True)
class _Draft:
    label: Verdict
    broken: str | None
    distractors: tuple[str, ...]
    is_mislabelled: bool
    is_complete: bool


def _of_label(
    plan: MissionPlan, count: int, label: Verdict, noise: float, sentences: int, draw: random.Random
) -> Iterator[_Draft]:
    mislabelled = set(draw.sample(range(count), int(noise * count + 0.5)))
    distracted = draw.sample(range(count), count // 2)
    names = [distractor.name for distractor in plan.distractors]
    turns = {ticket: turn for turn, ticket in enumerate(distracted)}
    order = draw.sample(range(count), count)
    for number in range(count):
        turn = turns.get(number)
        shown = () if turn is None else tuple(names[(turn + step) % len(names)] for step in range(sentences))
        broken = plan.rules[order[number] % len(plan.rules)].name if label == "fail" else None
        yield _Draft(label, broken, shown, number in mislabelled, True)


def _ticket(plan: MissionPlan, draft: _Draft, group_id: str, sentences: int, draw: random.Random) -> GeneratedTicket:
    other: Verdict = "fail" if draft.label == "pass" else "pass"
    line = {
        "group_id": group_id,
        "mission": plan.name,
        "label": other if draft.is_mislabelled else draft.label,
        "per_image": _summaries(plan, draft, sentences, draw),
        "stage_a_complete": draft.is_complete,
        "label_source": LABEL_SOURCE,
        "label_timestamp": LABEL_TIMESTAMP,
    }
    truth = TicketTruth(
        group_id, plan.name, draft.label, draft.broken, draft.distractors, draft.is_mislabelled, draft.is_complete
    )
    return GeneratedTicket(line, truth)


def _summaries(plan: MissionPlan, draft: _Draft, sentences: int, draw: random.Random) -> dict[str, str]:
    """Every feature is in one of the images, distractors and remarks in what is left; a gap leaves two blank."""
    told = [draw.choice(rule.wrong if rule.name == draft.broken else rule.right) for rule in plan.rules]
    told += [draw.choice(one.shown) for one in plan.distractors if one.name in draft.distractors]
    told += draw.sample(plan.remarks, sentences * IMAGES - len(told))
    draw.shuffle(told)
    space = " " if plan.language == "en" else ""
    summaries = {f"image_{n + 1}": space.join(told[sentences * n : sentences * (n + 1)]) for n in range(IMAGES)}
    if not draft.is_complete:
        summaries |= dict.fromkeys(draw.sample(sorted(summaries), 2), "")
    return summaries
