"""What a generated mission is made of: planted rules, distractors that do not count, and remarks that say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Language = Literal["en", "zh"]


@dataclass(frozen=True)
class PlantedRule:
    """A ticket fails where it shows the wrong value of one feature.

    `right` and `wrong` are the sentences of a summary, `text` the rule as an experience in the mission's language.
    The terms are for recognising the rule in a text of either language: what the feature, its wrong and its right
    value are called.  English terms stand for whole words, Chinese ones for parts of a text.
    """

    name: str
    text: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    feature_terms: tuple[str, ...]
    wrong_terms: tuple[str, ...]
    right_terms: tuple[str, ...]


@dataclass(frozen=True)
class Distractor:
    """What looks like a fault and is none: as often in tickets that pass as in those that fail.

    `text` is the wrong rule that somebody might take from it, in the form of a planted one.
    """

    name: str
    text: str
    shown: tuple[str, ...]
    terms: tuple[str, ...]


@dataclass(frozen=True)
class MissionPlan:
    """One mission.  `code` is in the group ids; `first` is the experience with which a run begins.

    `tips` are general advice, written without looking at any ticket: a control for what learned experiences are worth.
    """

    name: str
    code: str
    language: Language
    focus: str
    first: str
    rules: tuple[PlantedRule, ...]
    distractors: tuple[Distractor, ...]
    remarks: tuple[str, ...]
    tips: tuple[str, ...]


def plan_named(plans: Sequence[MissionPlan], name: str) -> MissionPlan:
    """Raises: ValueError for a name that no plan has."""
    for plan in plans:
        if plan.name == name:
            return plan
    raise ValueError(f"no mission is called {name!r}; there are {', '.join(plan.name for plan in plans)}")


def with_rules(plan: MissionPlan, count: int) -> MissionPlan:
    """The plan with its first `count` rules alone."""
    return replace(plan, rules=plan.rules[:count])
