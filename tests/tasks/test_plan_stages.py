"""The stages of a candidate: one table gives their order, their tasks and what the displays count."""

from __future__ import annotations

import pytest

from tasks.plan import Candidate, Merge, StageRef, outcome, stage_refs

MERGE = Merge("a", 0.5, "b", 0.25)
MUTATED = Candidate(0, (0.0, 1.5), "pad\nof two lines", target=1, parents=(2,))
EVALUATION = ["answer", "judge", "score"]


@pytest.mark.parametrize(
    ("merge", "target", "before", "after"),
    [
        (None, None, EVALUATION, []),
        (MERGE, None, ["merge", *EVALUATION], []),
        (None, 1, EVALUATION, ["reflect", *EVALUATION]),
        (MERGE, 1, ["merge", *EVALUATION], ["reflect", *EVALUATION]),
    ],
)
def test_a_candidate_has_the_stages_that_it_needs_in_order(
    merge: Merge | None, target: int | None, before: list[str], after: list[str]
) -> None:
    refs = stage_refs(Candidate(7, (0.0, 0.0), merge=merge, target=target))
    assert [ref.field for ref in refs] == [f"7:pre:{name}" for name in before] + [f"7:mut:{name}" for name in after]


def test_a_candidate_is_complete_only_with_all_its_stages() -> None:
    score = {"fitness": 0.5, "shortness": 0.4, "correctness": 0.6, "mean_tokens": 10.0, "seconds": 1.0}
    records = {ref.field: {"seconds": 1.0, "generated": 0} for ref in stage_refs(MUTATED)}
    records |= {StageRef(0, "score", "pre").field: score, StageRef(0, "score", "mut").field: {**score, "fitness": 0.9}}
    records[StageRef(0, "reflect", "mut").field] = {"delta": 2.0, "scratchpad": "learnt", "seconds": 1.0}
    found = outcome(MUTATED, records)
    assert found is not None
    assert (found.delta, found.mutated_scratchpad, found.pre.fitness) == (2.0, "learnt", 0.5)
    assert found.mut is not None
    assert found.mut.fitness == 0.9
    assert found.seconds["answer"] == 2.0
    for ref in stage_refs(MUTATED):
        assert outcome(MUTATED, {f: r for f, r in records.items() if f != ref.field}) is None


def test_a_skipped_mutation_has_no_second_score() -> None:
    score = {"fitness": 0.5, "shortness": 0.4, "correctness": 0.6, "mean_tokens": 10.0}
    records = {ref.field: {"skipped": True} for ref in stage_refs(MUTATED)}
    records["0:pre:score"] = score
    records["0:mut:reflect"] = {"delta": None, "reason": "twice the same delta"}
    found = outcome(MUTATED, records)
    assert found is not None
    assert (found.delta, found.mut, found.mutated_scratchpad) == (None, None, "pad\nof two lines")
