"""The test set: asked once, after everything has been chosen, and counted.

A set of questions on which many winners have been tested is no longer unseen, since people keep the one that did best.
So the store counts them by the content of the questions; a run that goes on after its test may have another winner, and
then counts again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.measuring import Measurer, baseline_score, measurement_of
from orchestrator.settings import Settings
from orchestrator.settings.run import objective_of
from tasks.context import content_hash
from tasks.plan import Candidate
from tasks.store.store import Store
from tasks.store.uses import record_use

PLAN = "test"


def systems_to_test(
    systems: Sequence[MeasuredSystem], winner: MeasuredSystem, also: Collection[str]
) -> tuple[MeasuredSystem, ...]:
    """The plain model, the rivals and the winner, which may be one of them.

    Of the rivals the prompt and the vector with the highest fitness on the validation set, and those that `also` names.
    """
    rivals = [s for s in systems if s.kind in ("prompt", "vector") and s.validation is not None]
    by_kind = [[s for s in rivals if s.kind == kind] for kind in ("prompt", "vector")]
    best = [max(group, key=_fitness) for group in by_kind if group]
    rivals = [s for s in rivals if s.name in also or s in best]
    asked = (*(s for s in systems if s.kind == "plain"), *rivals)
    return asked if winner.name in {s.name for s in asked} else (*asked, winner)


def measure_test(
    measurer: Measurer, systems: Sequence[MeasuredSystem], settings: Settings, generation: int
) -> list[MeasuredSystem]:
    """The systems with what the test set shows of each; the first is the plain one."""
    candidates = [
        Candidate(0, system.deltas, examples="test", system_prompt=system.system_prompt) for system in systems
    ]
    answers = measurer.answers(PLAN, generation, candidates)
    objective = objective_of(settings, baseline_score(answers[0]))
    return [replace(s, test=measurement_of(given, objective)) for s, given in zip(systems, answers, strict=True)]


def count_test_use(store: Store, run_id: str, winner: MeasuredSystem) -> int:
    """Note that this run tests its winner, and return how many winners of runs have been tested on these questions.

    A session that is repeated with the same winner counts once.
    """
    rows = [[example.question, example.context, example.gold] for example in store.examples(run_id)["test"]]
    use = content_hash(run_id, winner.system_prompt, list(winner.deltas))
    return record_use(store.redis, content_hash(sorted(rows)), use)


def _fitness(system: MeasuredSystem) -> float:
    return system.validation.fitness if system.validation else 0.0
