"""All rules: each answers a schema, and refuses a prompt that is not its own."""

from __future__ import annotations

import pytest

from workers.embedded.endpoint.rules import all_rules, merge, mutation, verdict


def test_each_module_of_rules_answers_a_schema():
    assert set(all_rules()) >= {"mutation", "merge", "verdict"}


@pytest.mark.parametrize("rule", [mutation.answer, merge.answer, verdict.answer])
def test_a_prompt_that_is_not_the_rules_own_is_refused(rule):
    with pytest.raises(ValueError):
        rule("system", "Tell me a story.")
