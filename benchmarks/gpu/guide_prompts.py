"""Ways to word a prompt of `guide` and the planted rules in it, and the experiences of each condition.

A prompt is the project's own, or that with the parts in a name such as `last+asked`:

    last      the experiences stand after the ticket
    asked     the question is asked once more at the end
    shots     two judged tickets about cups stand in the system message
    words     the verdict is `pass` or `fail` in Chinese missions too
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from orchestrator.guide.tickets.missions import PLANS
from orchestrator.guide.tickets.plan import Language, MissionPlan, PlantedRule
from tasks.guide.jobs import Messages
from tasks.guide.prompting import prompt_language, rollout_messages
from tasks.guide.ticket import Ticket

PROJECT = "project"
PARTS = ("last", "asked", "shots", "words")
WORDINGS = ("plain", "quoted", "contrast", "tolerant")
NOTHING: Mapping[Language, str] = {"en": "none", "zh": "无"}
HEADING = re.compile(r"^(?=## )", re.MULTILINE)

ASKED: Mapping[Language, str] = {
    "en": "## Question\nDoes a summary say what an experience calls a fault? Then the verdict is fail. "
    "Otherwise it is pass.\n\n",
    "zh": "## 问题\n是否有摘要说到某条经验认定的问题？有则不通过，没有则通过。\n\n",
}
SHOTS: Mapping[Language, str] = {
    "en": """
Two examples, with the one experience [G0]. Fail the ticket when a cup is blue.
- image_1: "A blue cup stands on the table."
Verdict: fail
Reason: G0 calls a blue cup a fault.
Confidence: 0.95
- image_1: "The cup is white and has a crack."
Verdict: pass
Reason: No experience calls this a fault.
Confidence: 0.90
""",
    "zh": """
两个例子，经验只有 [G0]. 杯子为蓝色时判不通过。
- image_1: "桌上有一个蓝色杯子。"
Verdict: 不通过
Reason: G0 认定蓝色杯子有问题。
Confidence: 0.95
- image_1: "杯子为白色，有一道裂纹。"
Verdict: 通过
Reason: 没有经验认定这是问题。
Confidence: 0.90
""",
}


def prompt_named(name: str, mission: str, focus: str, experiences: Mapping[str, str], ticket: Ticket) -> Messages:
    """The messages for a ticket.  Without experiences the word for none stands in their place.

    Raises: ValueError for a name with an unknown part.
    """
    parts = [] if name == PROJECT else name.split("+")
    if unknown := sorted(set(parts) - set(PARTS)):
        raise ValueError(f"a prompt is {PROJECT} or made of {', '.join(PARTS)}, and not of {', '.join(unknown)}")
    language = prompt_language(focus)
    nothing = NOTHING[language]
    system, user = rollout_messages(mission, focus, experiences or {"G0": nothing}, ticket)
    if not experiences:
        user = user.replace(f"[G0]. {nothing}", nothing, 1)
    sections = HEADING.split(user)[1:]  # experiences, mission, ticket, reply
    if "last" in parts:
        sections = [*sections[1:3], sections[0], *sections[3:]]
    if "asked" in parts:
        sections.insert(3, ASKED[language])
    if "shots" in parts:
        system += SHOTS[language]
    if "words" in parts:
        system = system.replace("Verdict: 不通过", "Verdict: fail").replace(
            "Verdict: 通过 或 不通过", "Verdict: pass 或 fail"
        )
        system = system.replace("Verdict: 通过", "Verdict: pass")
    return system, "".join(sections)


def worded(rule: PlantedRule, wording: str, language: Language) -> str:
    """A planted rule: as it is, quoting a sentence of a summary, or quoting one that fails and one that passes."""
    wrong, right = (texts[0].rstrip(".。") for texts in (rule.wrong, rule.right))
    if wording == "quoted":
        return (
            f'When a summary says "{wrong}", the verdict is fail.'
            if language == "en"
            else f"摘要写有“{wrong}”时判不通过。"
        )
    if wording == "contrast":
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
    return [worded(rule, wording, plan.language) for rule in plan.rules] + (
        tolerances(plan) if wording == "tolerant" else []
    )
