"""The matcher: a text states a rule when it says that the wrong value fails, or that the right one is required."""

from __future__ import annotations

import pytest

from orchestrator.guide.tickets.matcher import StatedRules, recalled_rules, stated_rules
from orchestrator.guide.tickets.missions import CABINET, PLANS
from orchestrator.guide.tickets.plan import MissionPlan

each_plan = pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.code)


@each_plan
def test_planted_rules_and_distractors_are_recognised_as_they_are_written(plan: MissionPlan) -> None:
    for rule in plan.rules:
        assert stated_rules(plan, rule.text) == StatedRules(frozenset({rule.name}), frozenset())
    for distractor in plan.distractors:
        assert stated_rules(plan, distractor.text) == StatedRules(frozenset(), frozenset({distractor.name}))
    assert recalled_rules(plan, [rule.text for rule in plan.rules]) == {rule.name for rule in plan.rules}


@each_plan
def test_what_tickets_show_and_what_tips_advise_states_no_rule(plan: MissionPlan) -> None:
    shown = [text for rule in plan.rules for text in (*rule.right, *rule.wrong)]
    shown += [text for distractor in plan.distractors for text in distractor.shown]
    for text in (*shown, *plan.remarks, *plan.tips, plan.first):
        assert stated_rules(plan, text) == StatedRules(frozenset(), frozenset()), text


@each_plan
def test_a_mission_does_not_state_the_rules_of_another(plan: MissionPlan) -> None:
    for other in PLANS:
        if other is not plan and other.language != plan.language:
            for rule in other.rules:
                assert not stated_rules(plan, rule.text).distractors


STATE_THE_WIRE = [
    "A black ground wire is not acceptable.",
    "The ground wire must be yellow-green.",
    "Ground wires must not be black.",
    "Fail unless the ground wire is yellow-green.",
    "Fail if the ground wire isn't yellow-green",
    "Pass if the ground wire is yellow-green, otherwise fail.",
    "If the ground wire is black, fail, if it is yellow-green, pass",
    "The colour of the ground wire matters. Black means fail.",
    "The verdict should be fail if the ground wire is black.",
    "If the wire does not look yellow-green, the ticket fails",
    "接地线必须为黄绿色",
    "接地线不是黄绿色时判不通过",
    "地线为黑色的应判不通过",
    "不得使用黑色接地线",
    "接地线不应为黑色",
]  # fmt: skip
STATE_NO_WIRE = [
    "Check the ground wire.",
    "The ground wire is black.",
    "Pass when the ground wire is black.",
    "Tickets with a yellow-green ground wire pass.",
    "Do not fail for a black ground wire.",
    "A ticket should pass if the ground wire is black.",
    "A black ground wire should be judged as pass.",
    "The ground wire being black is fine.",
    "Fail when the ground wire is yellow-green.",
    "接地线为黑色时通过",
]


@pytest.mark.parametrize("text", STATE_THE_WIRE)
def test_a_rule_may_be_put_in_many_ways(text: str) -> None:
    assert stated_rules(CABINET, text).rules == {"wire"}


@pytest.mark.parametrize("text", STATE_NO_WIRE)
def test_naming_the_feature_or_saying_the_contrary_states_nothing(text: str) -> None:
    assert stated_rules(CABINET, text).rules == frozenset()


def test_one_text_may_state_several_rules() -> None:
    text = "Fail if the ground wire is black, the cables have metal ties or the label is on the right side."
    assert stated_rules(CABINET, text).rules == {"wire", "ties", "label"}
    assert stated_rules(CABINET, "Use nylon ties instead of metal ties; metal is not allowed.").rules == {"ties"}
    assert stated_rules(CABINET, "若标签在右侧，则不通过；若在左侧，则通过").rules == {"label"}


def test_a_distractor_that_is_called_no_fault_misleads_nobody() -> None:
    for text in ("Rust on hinges does not matter: pass.", "Do not fail a ticket for rust.", "铰链生锈不影响判断。"):
        assert stated_rules(CABINET, text) == StatedRules(frozenset(), frozenset())
