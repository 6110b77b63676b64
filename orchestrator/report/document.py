"""`report.json`: the figures of a finished run for programs.  `figures.ReportFigures` is how it is read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from orchestrator.report.assessment import Assessment
from orchestrator.report.inference import Estimate
from orchestrator.report.intervals import mean_interval, share_interval
from orchestrator.report.pairwise import Pairwise
from orchestrator.report.systems import MeasuredSystem, Measurement, SetName


def report_document(assessment: Assessment) -> dict[str, Any]:
    """`report.json`.  Shares are from 0 to 1, intervals are [low, high] at 95 %; null is "not measured"."""
    conclusion, rivals = assessment.conclusion, assessment.rivals
    return {
        "run": assessment.run,
        "verdict": conclusion.headline,
        "conclusion": {
            "outcome": conclusion.outcome,
            "measured_on": conclusion.measured_on,
            "sentences": list(conclusion.sentences),
            "rival": conclusion.rival,
            "margin": assessment.margin,
            "smallest_visible_loss": conclusion.smallest_visible_loss,
            "noise_floor": None if assessment.noise is None else asdict(assessment.noise),
        },
        "validation": _two(assessment, "validation"),
        "test": _two(assessment, "test"),
        "test_uses": assessment.test_uses,
        "winner": assessment.winner.name,
        "start": assessment.start,
        "choices": dict(assessment.choices),
        "comparisons": [_comparison(pair) for pair in conclusion.pairs],
        "systems": [_system(system, assessment) for system in assessment.systems if system not in rivals],
        "rivals": [_system(system, assessment) for system in rivals],
    }


def _two(assessment: Assessment, name: SetName) -> dict[str, Any] | None:
    """The plain model with zero deltas and the winner, on one set."""
    zero, best = assessment.plain.measured_on(name), assessment.winner.measured_on(name)
    if zero is None or best is None:
        return None
    return {"zero": measurement_figures(zero, assessment.seed), "best": measurement_figures(best, assessment.seed)}


def measurement_figures(measured: Measurement, seed: int) -> dict[str, Any]:
    """The figures of one system on one set, with their intervals."""
    count = len(measured.examples)
    share = share_interval(measured.right, count)
    return {
        "n": count,
        "mean_tokens": measured.mean_tokens,
        "mean_tokens_interval": _interval(mean_interval(measured.tokens, seed)),
        "correct": measured.right,
        "share_correct": share.value,
        "share_correct_interval": _interval(share),
        "fitness": measured.fitness,
    }


def _system(system: MeasuredSystem, assessment: Assessment) -> dict[str, Any]:
    pair = assessment.over_plain.get(system.name)
    return {
        "name": system.name,
        "kind": system.kind,
        "system_prompt": system.system_prompt,
        "deltas": list(system.deltas),
        "validation": _figures_on("validation", system, assessment.seed),
        "test": _figures_on("test", system, assessment.seed),
        "against_plain": None if pair is None else _comparison(pair),
    }


def _figures_on(name: Literal["validation", "test"], system: MeasuredSystem, seed: int) -> dict[str, Any] | None:
    measured = system.measured_on(name)
    return None if measured is None else measurement_figures(measured, seed)


def _comparison(pair: Pairwise) -> dict[str, Any]:
    change = pair.change
    return {
        "against": pair.against,
        "kind": pair.kind,
        "n": change.count,
        "token_ratio": pair.ratio.ratio.value,
        "token_ratio_interval": _interval(pair.ratio.ratio),
        "correct_before": change.before,
        "correct_after": change.after,
        "gained": change.gained,
        "lost": change.lost,
        "correctness_difference": change.difference.value,
        "correctness_difference_interval": _interval(change.difference),
        "non_inferiority": asdict(pair.non_inferiority),
        "shorter_p": pair.shorter_p,
        "more_right_p": pair.more_right_p,
        "better_p": pair.better_p,
        "is_shorter": pair.is_shorter,
        "is_more_right": pair.is_more_right,
        "is_better": pair.is_better,
    }


def _interval(estimate: Estimate) -> list[float]:
    return [estimate.low, estimate.high]
