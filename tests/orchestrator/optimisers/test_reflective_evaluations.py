"""What the reflective search has evaluated: what is new, what another judge has scored, and how each counts."""

from __future__ import annotations

import dataclasses

from reflective_run import Formula, params, run, score

from orchestrator.optimisers.base import Best
from orchestrator.optimisers.reflective import Reflective
from orchestrator.runs.search import Search
from tasks.plan import Evaluations, Outcome, Plan


def test_only_a_population_without_fitness_is_evaluated() -> None:
    formula = Formula()
    run(params(generations=3, mutation_probability=1.0), formula)
    sizes = {plan.name: len(plan.candidates) for plan in formula.plans}
    # The six clones of generation 0 are one vector.
    assert sizes == {"g0_pop": 1, "g0_child": 4, "g1_child": 4, "g2_child": 4}


def test_the_best_of_another_judge_is_evaluated_first_and_compared_by_the_new_one() -> None:
    # Given a run whose judge changes after two generations, and whose best individual is not in the population
    parameters = params(elitism_size=0)
    before = run(dataclasses.replace(parameters, generations=2), Formula())[-1].state
    lost = Best((0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1), "the best", 17.0)
    search = Search(Reflective(), parameters)
    state = search.from_json(search.to_json(dataclasses.replace(before, best=lost)))
    # When it goes on
    formula, watched = Formula(), []
    generations = list(search.generations(state, formula, lambda generation, best: watched.append(best), rejudge=True))
    # Then the first plan has the best individual alone, and no later plan is like it
    assert [plan.name for plan in formula.plans[:3]] == ["g2_again", "g2_pop", "g2_child"]
    assert [candidate.deltas for candidate in formula.plans[0].candidates] == [lost.deltas]
    assert not any(plan.name.endswith("_again") for plan in formula.plans[1:])
    # And its new fitness is the one to beat
    found = {finished.state.best.fitness for finished in generations if finished.state.best}
    assert found == {*watched} == {score(lost.deltas).fitness}
    assert len(generations[0].generation.population) == 6
    assert generations[0].evaluations.computed == 0


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
