"""What the caller has is not read again."""

from __future__ import annotations

from test_store_plans import PLAN

from tasks.store.store import Store


def test_of_stages_and_prompts_only_those_are_read_that_the_caller_does_not_have(store: Store) -> None:
    store.put_plan("r", PLAN)
    for field in ("0:pre:judge", "0:pre:score"):
        store.put_stage("r", PLAN.name, field, {"of": field}, 1)
        store.put_prompt("r", f"{field}.txt", field)
    assert store.stages("r", PLAN.name, cached=["0:pre:judge"]) == {"0:pre:score": {"of": "0:pre:score"}}
    assert store.prompts("r", cached=["0:pre:judge.txt"]) == {"0:pre:score.txt": "0:pre:score"}
    assert store.stages("r", PLAN.name, cached=["0:pre:judge", "0:pre:score"]) == {}
