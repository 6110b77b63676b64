"""Early stop: the best so far answers the validation set, and a search that no longer improves there ends.

L. Prechelt, "Early Stopping - But When?", Neural Networks: Tricks of the Trade (1998), 55-69: stop after a number of
generations without a new best.  What was measured is in `history.jsonl`, and the decision follows from it alone, so a
resumed run makes the same one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.optimisers.base import Best, Evaluate
from orchestrator.optimisers.planning import validation_name
from orchestrator.runs.search import FinishedGeneration
from tasks.models import Objective
from tasks.objective import rescored
from tasks.plan import Candidate, Plan

History = Sequence[Mapping[str, Any]]


def validation_plan(best: Best, generation: int) -> Plan:
    """The best after a generation, on the validation set."""
    return Plan(validation_name(generation), generation, (Candidate(0, best.deltas, examples="validation"),))


def with_validation(
    finished: FinishedGeneration, history: History, evaluate: Evaluate, objective: Objective, judged_since: int = 0
) -> FinishedGeneration:
    """The generation with the score of the best so far on the validation set, by `objective`.

    A best that has not changed keeps its score, unless another judge gave it before generation `judged_since`.
    Raises: whatever `evaluate` raises.
    """
    best = finished.state.best
    if best is None:
        return finished
    before = history[-1] if history and history[-1]["generation"] >= judged_since else {}
    if before.get("validation") and before["best_ever"] == best.fitness:
        return dataclasses.replace(finished, validation=before["validation"])
    [outcome] = evaluate(validation_plan(best, finished.generation.number))
    return dataclasses.replace(
        finished,
        validation=dataclasses.asdict(rescored(outcome.pre, objective)),
        evaluations=finished.evaluations + outcome.evaluations,
    )


def without_improvement(history: History, judged_since: int = 0) -> int:
    """How many generations ago the validation fitness was last raised; 0 where none is known.

    Generations before `judged_since` were scored by another judge, and are not compared.
    """
    measured = [line["validation"]["fitness"] for line in history if is_measured(line, judged_since)]
    return len(measured) - 1 - measured.index(max(measured)) if measured else 0


def is_measured(line: Mapping[str, Any], judged_since: int) -> bool:
    return bool(line.get("validation")) and line["generation"] >= judged_since


def stop_reason(history: History, patience: int, generations: int, judged_since: int = 0) -> str:
    """Why the search ends before all its `generations`; "" where it goes on, has done them all, or `patience` is 0."""
    if not patience or len(history) >= generations or without_improvement(history, judged_since) < patience:
        return ""
    last = "generation" if patience == 1 else f"{patience} generations"
    return f"stopped early: the fitness on the validation set has not improved for the last {last}"
