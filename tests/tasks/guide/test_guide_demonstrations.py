"""Judged tickets of other subjects: they show how to judge, and nothing of what is to be learned."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from orchestrator.guide.tickets.matcher import stated_rules
from orchestrator.guide.tickets.missions import PLANS
from tasks.guide.demonstrations import BALANCED, DEMONSTRATIONS, STRICT, TurnLanguage, demonstrations
from tasks.guide.experiences import check_text

LANGUAGES: tuple[TurnLanguage, ...] = get_args(TurnLanguage)
each_language = pytest.mark.parametrize("language", LANGUAGES)


@each_language
def test_so_many_demonstrations_fail_and_for_a_reason_that_an_experience_gives(language: TurnLanguage) -> None:
    counts = [Counter(one.verdict for one in demonstrations(language, places)) for places in (BALANCED, STRICT)]
    assert counts == [{"pass": 4, "fail": 4}, {"pass": 2, "fail": 6}]
    for one in DEMONSTRATIONS[language]:
        named = [f"G{number}" for number, _ in enumerate(one.experiences) if f"G{number}" in one.reason]
        assert len(named) == (one.verdict == "fail")


@each_language
def test_a_demonstration_gives_no_planted_rule_away(language: TurnLanguage) -> None:
    for plan in PLANS:
        told = [text for rule in plan.rules for text in (*rule.right, *rule.wrong)]
        told += [text for one in plan.distractors for text in one.shown]
        for one in DEMONSTRATIONS[language]:
            for text in one.experiences:
                stated = stated_rules(plan, text)
                assert not stated.rules and not stated.distractors
            assert not set(one.summaries) & set(told)
            for rule in plan.rules:
                assert check_text(rule.text, one.summaries, (), one.experiences) is None
