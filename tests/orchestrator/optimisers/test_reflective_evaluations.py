"""What the reflective search has evaluated: what is new, and how each counts."""

from __future__ import annotations

import dataclasses

from reflective_run import Formula, params

from orchestrator.optimisers.reflective import Reflective
from orchestrator.runs.search import Search
from tasks.plan import Evaluations, Outcome, Plan


def test_evaluations_that_were_computed_found_and_carried_over_are_told_apart() -> None:
    # Given a farm on which the mutations find their answers in the store
    def evaluate(plan: Plan) -> list[Outcome]:
        return [dataclasses.replace(o, evaluations=Evaluations(1, o.mut is not None)) for o in Formula()(plan)]

    search = Search(Reflective(), params())
    generations = list(search.generations(search.init(), evaluate, lambda generation, best: None))
    first, second = generations[0].evaluations, generations[1].evaluations
    mutated = [sum(one.target is not None for one in g.generation.offspring) for g in generations]
    assert first == Evaluations(computed=1 + 4, cached=5 + mutated[0], carried=0)
    assert second == Evaluations(computed=4, cached=mutated[1], carried=6)


def test_what_is_not_sent_counts_as_found() -> None:
    """Equal members of a population are sent once, and a clone that nothing changes has its parent's score."""

    def evaluate(plan: Plan) -> list[Outcome]:
        return [dataclasses.replace(outcome, evaluations=Evaluations(1)) for outcome in Formula()(plan)]

    search = Search(Reflective(), params(crossover_probability=0.0, mutation_probability=0.0, generations=2))
    first, second = search.generations(search.init(), evaluate, lambda generation, best: None)
    assert first.evaluations == Evaluations(computed=1, cached=5 + 4, carried=0)
    assert second.evaluations == Evaluations(computed=0, cached=4, carried=6)
