"""All rules: each answers a schema, and refuses a prompt that is not its own."""

from __future__ import annotations

import pytest

from workers.embedded.rules import RULES


@pytest.mark.parametrize("schema", RULES)
def test_a_prompt_that_is_not_the_rules_own_is_refused(schema: str) -> None:
    with pytest.raises(ValueError):
        RULES[schema]("system", "Tell me a story.")
