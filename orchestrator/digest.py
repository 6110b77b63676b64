"""The few figures of a run that are looked at first: what it saved, at what loss, against what, at which cost.

`orchestrator compare` prints them side by side, and the page of `orchestrator report` begins with them.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from orchestrator.report.figures import ReportedSystem, ReportFigures, SystemFigures
from orchestrator.results import COLLECT, EVOLVE, RunResults
from orchestrator.runs.kinds import kind_of
from orchestrator.runs.status import TOKEN_COUNTS
from tasks.plan import Evaluations

NO_VALIDATION = "There is no validation set: the questions that chose the vector are those that it is measured on."
NO_REPORT = (
    "report.json, which has the conclusion, is missing: these figures are of the questions that were searched on."
)
FIELDS = (
    "run", "kind", "folder", "state", "progress", "reason", "verdict", "outcome", "measured_on", "test_uses",
    "questions", "tokens_before", "tokens_after", "token_change", "token_change_interval", "right_before",
    "right_after", "right_change", "right_change_interval", "winner", "rival", "rival_kind", "rival_prompt",
    "rival_questions", "rival_tokens", "rival_right", "generations", "individuals", "best_fitness", "evaluations",
    "retained_pairs", "wasted_tokens", "seconds", "calls", "target_tokens", "endpoint_tokens", "cost_usd", "model",
    "optimiser", "seed",
)  # fmt: skip
"""tokens_*: mean tokens an answer of the plain model and of the winner, right_*: numbers of right answers, on the
`questions` of the set `measured_on`: nothing was chosen on "test"; "validation" chose the winner, "training" has been
searched on.  token_change, right_change: shares, with 95 % intervals.  rival: the one that the first sentence of the
conclusion is about, or else the one with the highest fitness on that set.  evaluations, seconds: those of the
generations, without what is measured before and after the search.  Of a collection, tokens and questions are those of
the retained pairs."""


def digest_of(results: RunResults) -> dict[str, Any]:
    """All FIELDS; None where there is no figure yet, or where the run's kind has none."""
    status = results.status
    common: dict[str, Any] = {
        "run": results.run,
        "kind": results.kind,
        "folder": str(results.folder),
        "state": status.state,
        "progress": status.progress,
        "reason": status.reason,
        "calls": status.calls,
        "target_tokens": status.target_tokens,
        "endpoint_tokens": int(sum(results.usage.get(name, 0) for name in TOKEN_COUNTS[1:] if name != "cached")),
        "cost_usd": status.cost_usd,
    }
    find = {EVOLVE: _of_evolution, COLLECT: _of_collection}.get(results.kind, _of_another_kind)
    return {**dict.fromkeys(FIELDS), **common, **find(results)}


def _of_another_kind(results: RunResults) -> dict[str, Any]:
    """A guided or a routed run says what it has found in words of its own."""
    _, kind = kind_of(results.folder)
    return {"verdict": kind.summary(kind.progress(results.folder).figures) or None}


def _of_evolution(results: RunResults) -> dict[str, Any]:
    generations, settings = results.generations, results.settings
    own: dict[str, Any] = {
        "generations": len(generations),
        "individuals": len(results.individuals),
        "best_fitness": generations[-1].best_ever if generations else None,
        "evaluations": asdict(sum((generation.evaluations for generation in generations), Evaluations())),
        "seconds": math.fsum(generation.seconds["wall"] for generation in generations),
        "model": settings.get("TARGET_MODEL"),
        "optimiser": settings.get("OPTIMISER"),
        "seed": settings.get("SEED"),
    }
    return own | (_on_training(results) if results.report is None else _measured(results.report))


def _measured(report: ReportFigures) -> dict[str, Any]:
    both, against_plain = report.measured, report.comparisons[0]
    low, high = against_plain.token_ratio_interval
    found = rival_of(report)
    rival: dict[str, Any] = {}
    if found is not None:
        system, figures = found
        rival = {
            "rival": system.name,
            "rival_kind": system.kind,
            "rival_prompt": system.system_prompt,
            "rival_questions": figures.n,
            "rival_tokens": figures.mean_tokens,
            "rival_right": figures.correct,
        }
    return rival | {
        "verdict": report.verdict,
        "outcome": report.conclusion.outcome,
        "measured_on": report.conclusion.measured_on,
        "test_uses": report.test_uses,
        "questions": both.best.n,
        "tokens_before": both.zero.mean_tokens,
        "tokens_after": both.best.mean_tokens,
        "token_change": against_plain.token_ratio - 1,
        "token_change_interval": (low - 1, high - 1),
        "right_before": both.zero.correct,
        "right_after": both.best.correct,
        "right_change": against_plain.correctness_difference,
        "right_change_interval": against_plain.correctness_difference_interval,
        "winner": report.winner,
    }


def rival_of(report: ReportFigures) -> tuple[ReportedSystem, SystemFigures] | None:
    """The rival that the conclusion begins with, or the one with the highest fitness on the conclusion's set.

    None where no rival was measured on that set.
    """
    used = report.conclusion.measured_on
    measured = [(rival, figures) for rival in report.rivals if (figures := rival.measured_on(used)) is not None]
    for rival, figures in measured:
        if rival.name == report.conclusion.rival:
            return rival, figures
    return max(measured, key=lambda one: one[1].fitness, default=None)


def _on_training(results: RunResults) -> dict[str, Any]:
    """Without a validation set there is no report.json: the answers to the training set say most of what there is."""
    training = next((one for one in results.comparisons if one.name.startswith("training set")), None)
    if training is None:
        return {}
    before, after = (math.fsum(one.tokens for one in side) / len(side) for side in (training.before, training.after))
    right_before, right_after = (sum(one.is_correct for one in side) for side in (training.before, training.after))
    return {
        "verdict": NO_VALIDATION if len(results.comparisons) == 1 else NO_REPORT,
        "measured_on": "training",
        "questions": len(training.after),
        "tokens_before": before,
        "tokens_after": after,
        "token_change": max(after, 1.0) / max(before, 1.0) - 1,
        "right_before": right_before,
        "right_after": right_after,
        "right_change": (right_after - right_before) / len(training.after),
    }


def _of_collection(results: RunResults) -> dict[str, Any]:
    found, settings = results.collection, results.settings
    own: dict[str, Any] = {"model": settings.get("target.model_id"), "seed": settings.get("seed")}
    if found is None:
        return own
    retained = found.retained
    own |= {"retained_pairs": len(retained), "wasted_tokens": len(found.tokens), "questions": found.examples}
    if not retained:
        return own | {"verdict": f"No pair of {found.examples} examples was retained."}
    before = math.fsum(pair.verbose_tokens or 0 for pair in retained) / len(retained)
    after = math.fsum(pair.compressed_tokens or 0 for pair in retained) / len(retained)
    return own | {
        "verdict": (
            f"{len(retained)} of {len(found.pairs)} compressed answers are correct, and {len(found.tokens)} tokens are "
            "more frequent in the answers before compression."
        ),
        "tokens_before": before,
        "tokens_after": after,
        "token_change": after / before - 1 if before else None,
    }
