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
class TicketShape:
    """How hard tickets are to judge.

    A ticket has `images` summaries of so many `sentences`.  Of the features that are right the share `mentioned` is
    told, each by itself: with 0, a ticket that passes says nothing of what the rules are about.  The share
    `distracted` of the tickets of each label has a distractor for each sentence of a summary.  A value is told in one
    of the first `phrasings` ways: the first is nearly in the words of the rule.
    Raises: ValueError for a number that is out of range.
    """

    images: int = 4
    sentences: int = 1
    mentioned: float = 1.0
    distracted: float = 0.5
    phrasings: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.images <= 8 or self.sentences not in (1, 2, 3):
            raise ValueError("a ticket has 1 to 8 images, and a summary 1, 2 or 3 sentences")
        if self.phrasings not in (1, 2):
            raise ValueError("a value is told in 1 or 2 ways")
        if not 0 <= self.mentioned <= 1 or not 0 <= self.distracted <= 1:
            raise ValueError("the shares of features mentioned and of tickets distracted are from 0 to 1")

    @property
    def room(self) -> int:
        """Sentences of a ticket."""
        return self.images * self.sentences

    def check_room(self, plan: MissionPlan) -> None:
        """Raises: ValueError where a ticket's sentences are too few for what it may tell, or too many for the plan."""
        features = len(plan.rules) if self.mentioned else 1
        most = features + (self.sentences if self.distracted else 0)
        least = len(plan.rules) if self.mentioned == 1 else 0
        if not most <= self.room <= least + len(plan.remarks):
            raise ValueError(
                f"{plan.name}: a ticket of this shape has from {most} to {least + len(plan.remarks)} sentences, "
                f"and not {self.room}"
            )


DEFAULT_SHAPE = TicketShape()


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
    shape: TicketShape = DEFAULT_SHAPE,
    part: str = "train",
) -> list[GeneratedTicket]:
    """`count` complete tickets of a mission, as many that pass as that fail, and `gaps` that Stage-A has not completed.

    Each failing ticket breaks one rule, and each rule is broken equally often.  Of each label the share `noise` has the
    other one in Stage-A's line.  `part` names an independent draw: "test" has other tickets than "train".
    Raises: ValueError for an odd count, another number that is out of range, or a shape that does not fit the plan.
    """
    if count < 0 or count % 2 or gaps < 0 or not 0 <= noise <= 0.5:
        raise ValueError("count is even, gaps is not negative, and noise is from 0 to 0.5")
    shape.check_room(plan)
    draw = random.Random(f"{seed}/{plan.code}/{part}")
    half = count // 2
    labels: tuple[Verdict, Verdict] = ("pass", "fail")
    made = [draft for label in labels for draft in _of_label(plan, half, label, noise, shape, draw)]
    made += [_Draft("pass", None, (), False, False) for _ in range(gaps)]
    draw.shuffle(made)
    return [_ticket(plan, draft, f"{plan.code}-{part}-{number:05}", shape, draw) for number, draft in enumerate(made)]


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
    plan: MissionPlan, count: int, label: Verdict, noise: float, shape: TicketShape, draw: random.Random
) -> Iterator[_Draft]:
    mislabelled = set(draw.sample(range(count), int(noise * count + 0.5)))
    distracted = draw.sample(range(count), int(shape.distracted * count))
    names = [distractor.name for distractor in plan.distractors]
    turns = {ticket: turn for turn, ticket in enumerate(distracted)}
    order = draw.sample(range(count), count)
    for number in range(count):
        turn = turns.get(number)
        shown = () if turn is None else tuple(names[(turn + step) % len(names)] for step in range(shape.sentences))
        broken = plan.rules[order[number] % len(plan.rules)].name if label == "fail" else None
        yield _Draft(label, broken, shown, number in mislabelled, True)


def _ticket(
    plan: MissionPlan, draft: _Draft, group_id: str, shape: TicketShape, draw: random.Random
) -> GeneratedTicket:
    other: Verdict = "fail" if draft.label == "pass" else "pass"
    line = {
        "group_id": group_id,
        "mission": plan.name,
        "label": other if draft.is_mislabelled else draft.label,
        "per_image": _summaries(plan, draft, shape, draw),
        "stage_a_complete": draft.is_complete,
        "label_source": LABEL_SOURCE,
        "label_timestamp": LABEL_TIMESTAMP,
    }
    truth = TicketTruth(
        group_id, plan.name, draft.label, draft.broken, draft.distractors, draft.is_mislabelled, draft.is_complete
    )
    return GeneratedTicket(line, truth)


def _summaries(plan: MissionPlan, draft: _Draft, shape: TicketShape, draw: random.Random) -> dict[str, str]:
    """What is told is spread over the images, with remarks in what is left; a gap leaves two blank."""
    told = [
        draw.choice((rule.wrong if rule.name == draft.broken else rule.right)[: shape.phrasings])
        for rule in plan.rules
        if rule.name == draft.broken or shape.mentioned == 1 or draw.random() < shape.mentioned
    ]
    told += [draw.choice(one.shown) for one in plan.distractors if one.name in draft.distractors]
    told += draw.sample(plan.remarks, shape.room - len(told))
    draw.shuffle(told)
    space = " " if plan.language == "en" else ""
    size = shape.sentences
    summaries = {f"image_{n + 1}": space.join(told[size * n : size * (n + 1)]) for n in range(shape.images)}
    if not draft.is_complete:
        summaries |= dict.fromkeys(draw.sample(sorted(summaries), min(2, shape.images)), "")
    return summaries
