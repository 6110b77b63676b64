"""The few figures of a run that are looked at first: what it saved, at what loss, against what, at which cost.

`orchestrator compare` prints them side by side, and the page of `orchestrator report` begins with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.collect.report import token_counts
from orchestrator.evolve.systems import PLAIN
from orchestrator.report.model import ReportFile
from orchestrator.report.statistics import pair, paired_sentence
from orchestrator.results import COLLECT, EVOLVE, RunResults
from orchestrator.runs.kinds import kind_of
from orchestrator.runs.status import TOKEN_COUNTS
from tasks.plan import Evaluations

FIELDS = (
    "run", "kind", "folder", "state", "progress", "reason", "verdict", "outcome", "measured_on", "test_uses",
    "questions", "tokens_before", "tokens_after", "token_change", "token_change_interval", "right_before",
    "right_after", "whole_before", "whole_after", "correct_before", "correct_after", "correct_change",
    "correct_change_interval", "winner", "rival", "rival_kind", "rival_prompt", "rival_questions", "rival_tokens",
    "rival_right", "rival_whole", "rival_correct", "generations", "individuals", "best_fitness", "search_evaluations",
    "retained_pairs", "wasted_tokens", "search_seconds", "calls", "target_tokens", "endpoint_tokens", "cost_usd",
    "model", "optimiser", "seed",
)  # fmt: skip
"""tokens_*: mean tokens an answer of the plain model and of the winner; right_*, whole_*, correct_*: answers, of the
`questions` of the set `measured_on`: nothing was chosen on "test".  token_change, correct_change: shares, with
95 % intervals.  rival: the strongest of those that are free in every engine.  search_*: those of the
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


def direct_comparison(runs: Sequence[RunResults]) -> list[str]:
    """The second run's winner against the first one's, on the test set where both have asked it, else on validation."""
    reports = [one.report for one in runs]
    if len(runs) != 2 or (report := reports[1]) is None or reports[0] is None:
        return []
    first, second = runs
    winners = [one.book.system(one.book.winner) for one in runs]
    for which in ("test", "validation"):
        before, after = (getattr(winner, which) for winner in winners)
        hashes = [one.question_hashes.get(which) for one in runs]
        if before is None or after is None or hashes[0] is None or hashes[0] != hashes[1]:
            continue
        found = pair(before, after, report.margin, seed=0)
        questions = f"The winner of {second.run}, on the same {found.change.count} {which} questions,"
        return [f"{questions} {paired_sentence(found, f'the winner of {first.run}')}"]
    return []


def _of_another_kind(results: RunResults) -> dict[str, Any]:
    """A guided or a routed run says what it has found in words of its own."""
    kind = kind_of(results.folder)
    return {"verdict": kind.summary(kind.progress(results.folder).figures) or None}


def _of_evolution(results: RunResults) -> dict[str, Any]:
    generations, settings = results.generations, results.settings
    own: dict[str, Any] = {
        "generations": len(generations),
        "individuals": len(results.individuals),
        "best_fitness": generations[-1]["best_ever"] if generations else None,
        "search_evaluations": asdict(sum((Evaluations(**one["evaluations"]) for one in generations), Evaluations())),
        "search_seconds": math.fsum(generation["seconds"]["wall"] for generation in generations),
        "model": settings.get("TARGET_MODEL"),
        "optimiser": settings.get("OPTIMISER"),
        "seed": settings.get("SEED"),
    }
    return own if results.report is None else own | _measured(results.report)


def _measured(report: ReportFile) -> dict[str, Any]:
    which = report.conclusion.measured_on
    before, after = (report.system(name).on(which) for name in (PLAIN, report.winner))
    assert before is not None and after is not None, "a conclusion is of a set that both were asked"
    ratio, change = report.conclusion.paired.ratio.ratio, report.conclusion.paired.change.difference
    return {
        "verdict": report.conclusion.sentence,
        "outcome": report.conclusion.outcome,
        "measured_on": which,
        "test_uses": report.test_uses,
        "questions": after.n,
        "tokens_before": before.mean_tokens,
        "tokens_after": after.mean_tokens,
        "token_change": ratio.value - 1,
        "token_change_interval": (ratio.low - 1, ratio.high - 1),
        **{f"{name}_before": getattr(before, name) for name in COUNTED},
        **{f"{name}_after": getattr(after, name) for name in COUNTED},
        "correct_change": change.value,
        "correct_change_interval": (change.low, change.high),
        "winner": report.winner,
        **_rival(report),
    }


COUNTED = ("right", "whole", "correct")


def _rival(report: ReportFile) -> dict[str, Any]:
    """The strongest rival, on the last set that it was asked."""
    if report.conclusion.rival is None:
        return {}
    rival = report.system(report.conclusion.rival)
    figures = rival.test or rival.validation or rival.ordering
    assert figures is not None, "a rival was measured"
    return {
        "rival": rival.name,
        "rival_kind": rival.kind,
        "rival_prompt": rival.system_prompt,
        "rival_questions": figures.n,
        "rival_tokens": figures.mean_tokens,
        **{f"rival_{name}": getattr(figures, name) for name in COUNTED},
    }


def _of_collection(results: RunResults) -> dict[str, Any]:
    found, settings = results.collection, results.settings
    own: dict[str, Any] = {"model": settings.get("target.model_id"), "seed": settings.get("seed")}
    if found is None:
        return own
    examples, tokens = found["splits"]["train"], len(found["token_selection"]["v_steer"])
    retained = [pair for example in examples for pair in example["retained_pairs"]]
    count = len(retained) + sum(len(example["discarded_pairs"]) for example in examples)
    own |= {"retained_pairs": len(retained), "wasted_tokens": tokens, "questions": len(examples)}
    if not retained:
        return own | {"verdict": f"No pair of {len(examples)} examples was retained."}
    before, after = (sum(side) / len(retained) for side in zip(*map(token_counts, retained), strict=True))
    return own | {
        "verdict": (
            f"{len(retained)} of {count} compressed answers are correct, and {tokens} tokens are more frequent in the "
            "answers before compression."
        ),
        "tokens_before": before,
        "tokens_after": after,
        "token_change": after / before - 1 if before else None,
    }
