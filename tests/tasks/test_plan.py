"""From the records of a candidate's stages to its outcome."""

from __future__ import annotations

from typing import Any

from tasks.plan import Candidate, Evaluations, outcome

SCORE = {"fitness": 0.5, "shortness": 0.5, "correctness": 0.5, "mean_tokens": 9.0}


def records(phase: str, generated: int | None) -> dict[str, dict[str, Any]]:
    """An evaluation that generated so many answers; None for one that was skipped."""
    if generated is None:
        return {f"0:{phase}:{stage}": {"skipped": True} for stage in ("answer", "judge", "score")}
    answers = {"answers": [], "generated": generated}
    return {f"0:{phase}:answer": answers, f"0:{phase}:judge": {"verdicts": []}, f"0:{phase}:score": SCORE}


def test_an_evaluation_is_computed_when_the_target_generated_an_answer_and_cached_otherwise() -> None:
    plain, mutated = Candidate(0, (0.0,)), Candidate(0, (0.0,), target=0)
    reflect = {"0:mut:reflect": {"delta": 0.5, "scratchpad": "s"}}
    skipped = {"0:mut:reflect": {"delta": None}}
    counts = [
        outcome(plain, records("pre", 1)),
        outcome(plain, records("pre", 0)),
        outcome(mutated, {**records("pre", 0), **reflect, **records("mut", 3)}),
        outcome(mutated, {**records("pre", 3), **skipped, **records("mut", None)}),
    ]
    assert [o and o.evaluations for o in counts] == [
        Evaluations(1, 0),
        Evaluations(0, 1),
        Evaluations(1, 1),
        Evaluations(1, 0),
    ]
    assert outcome(mutated, records("pre", 3)) is None
