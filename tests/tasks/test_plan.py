"""The stages of a candidate, and what their records add up to."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tasks.models import Score
from tasks.plan import Candidate, Evaluations, Merge, Outcome, outcome, stage_refs

SCORE = Score(0.5, 0.4, 0.6, 30.0)
OTHER = Score(0.7, 0.5, 0.8, 20.0)
MERGE = Merge("a", 0.1, "b", 0.2)


def fields(candidate: Candidate) -> list[str]:
    return [ref.field for ref in stage_refs(candidate)]


def test_a_candidate_is_merged_evaluated_mutated_and_evaluated_again() -> None:
    evaluation = ["3:pre:answer", "3:pre:judge", "3:pre:score"]
    again = ["3:mut:reflect", "3:mut:answer", "3:mut:judge", "3:mut:score"]
    assert fields(Candidate(3, (0.0,))) == evaluation
    assert fields(Candidate(3, (0.0,), merge=MERGE)) == ["3:pre:merge", *evaluation]
    assert fields(Candidate(3, (0.0,), target=0)) == [*evaluation, *again]
    assert fields(Candidate(3, (0.0,), rewrite=True)) == [*evaluation, "3:mut:reflect"]


@pytest.mark.parametrize(
    ("reflected", "deltas", "scratchpad"),
    [({"deltas": [1.0, -2.0], "scratchpad": "learnt"}, (1.0, -2.0), "learnt"), ({"deltas": None}, None, "before")],
)
def test_a_rewrite_comes_back_as_deltas_without_a_second_score(
    reflected: dict[str, Any], deltas: tuple[float, ...] | None, scratchpad: str
) -> None:
    candidate = Candidate(0, (0.0, 0.0), "before", rewrite=True)
    records: dict[str, dict[str, Any]] = {field: {"seconds": 1.0} for field in fields(candidate)}
    records["0:pre:answer"] |= {"generated": 2}
    records["0:pre:score"] |= dataclasses.asdict(SCORE)
    records["0:mut:reflect"] |= reflected

    result = outcome(candidate, records)

    seconds = {"answer": 1.0, "judge": 1.0, "score": 1.0, "reflect": 1.0}
    assert result == Outcome(0, "before", SCORE, None, scratchpad, None, seconds, deltas, evaluations=Evaluations(1))


def test_a_mutation_comes_back_with_both_scores() -> None:
    candidate = Candidate(0, (0.0, 0.0), "before", target=1)
    records: dict[str, dict[str, Any]] = {field: {} for field in fields(candidate)}
    records["0:pre:answer"] = records["0:mut:answer"] = {"generated": 1}
    records["0:pre:score"] = dataclasses.asdict(SCORE)
    assert outcome(candidate, {k: v for k, v in records.items() if k != "0:mut:score"}) is None
    records["0:mut:score"] = dataclasses.asdict(OTHER)
    records["0:mut:reflect"] = {"delta": -1.5, "scratchpad": "after"}

    result = outcome(candidate, records)

    assert result is not None
    assert (result.pre, result.delta, result.mutated_scratchpad, result.mut) == (SCORE, -1.5, "after", OTHER)
    assert result.deltas is None


def records_of(phase: str, generated: int | None) -> dict[str, dict[str, Any]]:
    """An evaluation that generated so many answers; None for one that was skipped."""
    if generated is None:
        return {f"0:{phase}:{stage}": {"skipped": True} for stage in ("answer", "judge", "score")}
    answers = {"answers": [], "generated": generated}
    return {
        f"0:{phase}:answer": answers,
        f"0:{phase}:judge": {"verdicts": []},
        f"0:{phase}:score": dataclasses.asdict(SCORE),
    }


def test_an_evaluation_is_computed_when_the_target_generated_an_answer_and_cached_otherwise() -> None:
    plain, mutated = Candidate(0, (0.0,)), Candidate(0, (0.0,), target=0)
    reflect = {"0:mut:reflect": {"delta": 0.5, "scratchpad": "s"}}
    skipped = {"0:mut:reflect": {"delta": None}}
    counts = [
        outcome(plain, records_of("pre", 1)),
        outcome(plain, records_of("pre", 0)),
        outcome(mutated, {**records_of("pre", 0), **reflect, **records_of("mut", 3)}),
        outcome(mutated, {**records_of("pre", 3), **skipped, **records_of("mut", None)}),
    ]
    assert [o and o.evaluations for o in counts] == [
        Evaluations(1, 0),
        Evaluations(0, 1),
        Evaluations(1, 1),
        Evaluations(1, 0),
    ]
    assert outcome(mutated, records_of("pre", 3)) is None
