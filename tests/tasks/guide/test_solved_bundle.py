"""The solved bundle shows what it says, and tells nothing of the missions that are measured."""

from __future__ import annotations

import pytest

from orchestrator.guide.tickets.matcher import stated_rules
from orchestrator.guide.tickets.missions import PLANS
from tasks.guide.prompting import PromptLanguage
from tasks.guide.solved_bundle import SOLVED


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_sentence_of_the_rule_stands_in_all_failing_tickets_and_in_no_other(language: PromptLanguage) -> None:
    solved = SOLVED[language]
    failing = [texts for label, texts in solved.wrong if label == "fail"]
    passing = [texts for label, texts in solved.wrong if label == "pass"] + list(solved.right)
    [told] = set.intersection(*map(set, failing))
    assert told in solved.summary and f" {len(failing)} " in solved.summary
    assert not any(told in texts for texts in passing)
    other = failing[0][0]
    assert other in solved.rationale and any(other in texts for texts in passing), "what decides nothing stands in both"
    assert len({texts.index(told) for texts in failing}) == 2, "in no certain place"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_states_no_planted_rule_and_no_distractor(language: PromptLanguage) -> None:
    for plan in PLANS:
        found = stated_rules(plan, SOLVED[language].rule)
        assert not found.rules and not found.distractors
        texts = [*(texts for _, texts in SOLVED[language].wrong), *SOLVED[language].right]
        assert not {told for one in texts for told in one} & {*plan.remarks, *(t for r in plan.rules for t in r.wrong)}
