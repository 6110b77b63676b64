"""The test set: asked once, after everything has been chosen, and counted.

A set of questions that many runs have been tested on is no longer unseen, since people keep the run that did best.  So
the store counts the runs that have asked it, by the content of its questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.measuring import Measurer, baseline_score, measured
from orchestrator.settings import Settings
from orchestrator.settings.run import objective_of
from tasks.context import content_hash
from tasks.plan import Candidate
from tasks.store.store import Store

PLAN = "test"


def systems_to_test(
    systems: Sequence[MeasuredSystem], winner: MeasuredSystem, *, every: bool
) -> tuple[MeasuredSystem, ...]:
    """The plain model, the rivals and the winner.

    Of the rivals those that answered the whole validation set, or with `every` False only the prompt and the vector
    that were best there.
    """
    rivals = [s for s in systems if s.kind in ("prompt", "vector") and not s.is_stopped and s.validation is not None]
    if not every:
        by_kind = {kind: [s for s in rivals if s.kind == kind] for kind in ("prompt", "vector")}
        rivals = [max(group, key=_fitness) for group in by_kind.values() if group]
    return (*(s for s in systems if s.kind == "plain"), *rivals, winner)


def measure_test(
    measurer: Measurer, systems: Sequence[MeasuredSystem], settings: Settings, generation: int
) -> list[MeasuredSystem]:
    """The systems with what the test set shows of each; the first is the plain one.  Raises: Parked."""
    candidates = [
        Candidate(0, system.deltas, examples="test", system_prompt=system.system_prompt) for system in systems
    ]
    answers = measurer.answers(PLAN, generation, candidates)
    objective = objective_of(settings, baseline_score(answers[0]))
    return [replace(s, test=measured(given, objective)) for s, given in zip(systems, answers, strict=True)]


def count_test_use(store: Store, run_id: str) -> int:
    """Note that this run has asked its test set, and return how many runs have asked the same questions."""
    rows = [[example.question, example.context, example.gold] for example in store.examples(run_id)["test"]]
    return store.count_test_use(content_hash(sorted(rows)), run_id)


def _fitness(system: MeasuredSystem) -> float:
    return system.validation.fitness if system.validation else 0.0
