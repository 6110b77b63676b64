"""`pareto.json`: every measured system as a point of tokens and right answers on the validation set."""

from __future__ import annotations

from typing import Any

from orchestrator.report.assessment import Assessment
from orchestrator.report.document import stopped_after
from orchestrator.report.intervals import mean_interval, share_interval
from orchestrator.report.systems import MeasuredSystem, Measurement


def front_document(assessment: Assessment) -> dict[str, Any]:
    """`{"set": "validation", "points": [...]}`, the points in the order of the systems.

    A point is on the front when no other has fewer tokens without fewer right answers, or more right answers without
    more tokens.  A system that was stopped early has answered other questions on average and is never on the front.
    """
    measured = [(system, system.validation) for system in assessment.systems if system.validation is not None]
    complete = [result for system, result in measured if not system.is_stopped]
    return {
        "set": "validation",
        "points": [_point(system, result, complete, assessment) for system, result in measured],
    }


def _point(
    system: MeasuredSystem, result: Measurement, complete: list[Measurement], assessment: Assessment
) -> dict[str, Any]:
    tokens = mean_interval(result.tokens, assessment.seed)
    share = share_interval(result.right, len(result.examples))
    return {
        "name": system.name,
        "kind": system.kind,
        "system_prompt": system.system_prompt,
        "deltas": list(system.deltas),
        "mean_tokens": tokens.value,
        "mean_tokens_interval": [tokens.low, tokens.high],
        "share_correct": share.value,
        "share_correct_interval": [share.low, share.high],
        "fitness": result.fitness,
        "is_on_front": not system.is_stopped and not any(_dominates(other, result) for other in complete),
        "is_winner": system is assessment.winner,
        "stopped_after": stopped_after(system),
    }


def _dominates(one: Measurement, other: Measurement) -> bool:
    """Whether `one` is at least as good as `other` in both measures, and better in one of them."""
    first = (one.mean_tokens, -one.right / len(one.examples))
    second = (other.mean_tokens, -other.right / len(other.examples))
    return first != second and first[0] <= second[0] and first[1] <= second[1]
