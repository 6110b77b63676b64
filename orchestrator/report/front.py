"""`pareto.json`: every measured system as a point of tokens and right answers on the validation set."""

from __future__ import annotations

from typing import Any

from orchestrator.report.assessment import Assessment
from orchestrator.report.intervals import mean_interval, share_interval
from orchestrator.report.systems import MeasuredSystem, Measurement


def front_document(assessment: Assessment) -> dict[str, Any]:
    """`{"set": "validation", "points": [...]}`, the points in the order of the systems.

    A point is on the front when no other has fewer tokens without fewer right answers, or more right answers without
    more tokens.
    """
    measured = [(system, system.validation) for system in assessment.systems if system.validation is not None]
    results = [result for _, result in measured]
    return {
        "set": "validation",
        "points": [_point(system, result, results, assessment) for system, result in measured],
    }


def _point(
    system: MeasuredSystem, result: Measurement, results: list[Measurement], assessment: Assessment
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
        "is_on_front": not any(_dominates(other, result) for other in results),
        "is_winner": system is assessment.winner,
    }


def _dominates(one: Measurement, other: Measurement) -> bool:
    """Whether `one` is at least as good as `other` in both measures, and better in one of them."""
    first = (one.mean_tokens, -one.right / len(one.examples))
    second = (other.mean_tokens, -other.right / len(other.examples))
    return first != second and first[0] <= second[0] and first[1] <= second[1]
