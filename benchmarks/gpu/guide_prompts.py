"""Prompts without experiences, ways to word the planted rules, and the experiences of each condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from orchestrator.guide.tickets.missions import PLANS
from orchestrator.guide.tickets.plan import Distractor, Language, MissionPlan, PlantedRule
from tasks.guide.jobs import Messages
from tasks.guide.prompting import PromptForm, prompt_language, rollout_messages
from tasks.guide.ticket import Ticket

FORMS: tuple[PromptForm, ...] = get_args(PromptForm)
WORDINGS = ("plain", "quoted", "contrast", "tolerant", "settled")
SETTLED: Mapping[Language, str] = {
    "en": "Pass the ticket when no summary says any of these faults.",
    "zh": "没有摘要说到以上问题时判通过。",
}
NOTHING: Mapping[Language, str] = {"en": "none", "zh": "无"}


def messages_for(plan: MissionPlan, experiences: Mapping[str, str], ticket: Ticket, form: PromptForm) -> Messages:
    """The project's prompt.  Without experiences the word for none stands in their place."""
    nothing = NOTHING[prompt_language(plan.focus)]
    *before, user = rollout_messages(plan.name, plan.focus, experiences or {"G0": nothing}, ticket, form)
    return *before, user if experiences else user.replace(f"[G0]. {nothing}", nothing, 1)


def worded(rule: PlantedRule | Distractor, wording: str, language: Language) -> str:
    """A rule as it is, quoting a sentence of a summary, or quoting one that fails and saying what passes."""
    is_planted = isinstance(rule, PlantedRule)
    wrong = (rule.wrong if is_planted else rule.shown)[0].rstrip(".。")
    if wording == "quoted":
        return (
            f'When a summary says "{wrong}", the verdict is fail.'
            if language == "en"
            else f"摘要写有“{wrong}”时判不通过。"
        )
    if wording in ("contrast", "settled"):
        right = rule.right[0].rstrip(".。") if is_planted else {"en": "Nothing of this", "zh": "没有提到"}[language]
        return (
            f'"{wrong}" is a fault, so fail the ticket. "{right}" is no fault.'
            if language == "en"
            else f"“{wrong}”是问题，判不通过；“{right}”不是问题。"
        )
    return rule.text


def tolerances(plan: MissionPlan) -> list[str]:
    """For each distractor, that it is no fault."""
    shown = [one.shown[0].rstrip(".。") for one in plan.distractors]
    if plan.language == "en":
        return [f'"{text}" is no fault and does not fail the ticket.' for text in shown]
    return [f"“{text}”不是问题，不影响通过。" for text in shown]


def numbered(texts: list[str]) -> dict[str, str]:
    return {f"G{number}": text for number, text in enumerate(texts)}


def other_plan(plan: MissionPlan) -> MissionPlan:
    """Another mission in the same language."""
    return next(one for one in PLANS if one.language == plan.language and one.code != plan.code)


def experiences_of(condition: str, plan: MissionPlan, wording: str = "plain") -> dict[str, str]:
    """The experiences of a condition: `none`, `initial`, `tips`, `planted`, or `other`, the rules of another mission.

    Raises: KeyError for another condition.
    """
    other = other_plan(plan)
    texts = {
        "none": [],
        "initial": [plan.first],
        "tips": [plan.first, *plan.tips[: len(plan.rules)]],
        "planted": [plan.first, *_rules(plan, wording)],
        "other": [plan.first, *_rules(other, wording)[: len(_rules(plan, wording))]],
    }[condition]
    return numbered(texts)


def _rules(plan: MissionPlan, wording: str) -> list[str]:
    rules = [worded(rule, wording, plan.language) for rule in plan.rules]
    more = {"tolerant": tolerances(plan), "settled": [SETTLED[plan.language]]}
    return rules + more.get(wording, [])
