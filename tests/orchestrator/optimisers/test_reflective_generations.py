"""The generations of the reflective search, evaluated by a formula instead of a farm."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random

import pytest

from orchestrator.optimisers.base import Best, SearchState, StateError
from orchestrator.optimisers.individual import canonical_order
from orchestrator.optimisers.reflective import Reflective, ReflectiveParams
from orchestrator.runs.evolution_tree import EvolutionTree
from orchestrator.runs.search import FinishedGeneration, Search
from tasks.models import Score
from tasks.plan import Candidate, Evaluations, Outcome, Plan

IDS = canonical_order([str(i) for i in range(12)])


def params(**changes: object) -> ReflectiveParams:
    values = {
        "seed": 7,
        "cluster_ids": IDS,
        "initial_deltas": (0.0,) * 12,
        "population_size": 6,
        "generations": 5,
        "crossover_probability": 0.6,
        "mutation_probability": 0.7,
        "elitism_size": 2,
        "selection": "tournament",
        "tournament_size": 3,
        "top_k": 3,
    }
    return ReflectiveParams(**{**values, **changes})  # type: ignore[arg-type]  # the values' types are the fields'


def score(deltas: tuple[float, ...]) -> Score:
    """Best where every delta is its cluster's number divided by ten."""
    distance = sum((delta - i / 10) ** 2 for i, delta in enumerate(deltas))
    return Score(fitness=1 / (1 + distance), shortness=0.5, correctness=0.5, mean_tokens=10.0)


def answer(candidate: Candidate, *, skip: frozenset[int] = frozenset()) -> Outcome:
    """A perfect reflector: it moves the target cluster to where the formula wants it."""
    scratchpad = (
        f"({candidate.merge.scratchpad_a}|{candidate.merge.scratchpad_b})" if candidate.merge else candidate.scratchpad
    )
    if candidate.target is None or candidate.index in skip:
        return Outcome(candidate.index, scratchpad, score(candidate.deltas), None, scratchpad, None, {"answer": 1.0})
    changed = list(candidate.deltas)
    changed[candidate.target] = candidate.target / 10 + 0.001
    mut = score(tuple(changed))
    return Outcome(
        candidate.index,
        scratchpad,
        score(candidate.deltas),
        changed[candidate.target],
        f"{candidate.target}",
        mut,
        {"answer": 2.0},
    )


class Formula:
    """Evaluates plans and remembers them; answers in a shuffled order when it is given a generator."""

    def __init__(self, shuffle: random.Random | None = None, skip: frozenset[int] = frozenset()) -> None:
        self.plans: list[Plan] = []
        self.shuffle = shuffle
        self.skip = skip

    def __call__(self, plan: Plan) -> list[Outcome]:
        self.plans.append(plan)
        outcomes = [answer(candidate, skip=self.skip) for candidate in plan.candidates]
        if self.shuffle:
            self.shuffle.shuffle(outcomes)
        return outcomes


def run(
    parameters: ReflectiveParams, formula: Formula, tree: EvolutionTree | None = None, start: SearchState | None = None
) -> list[FinishedGeneration]:
    search, generations = Search(Reflective(), parameters), []
    for finished in search.generations(start or search.init(), formula, lambda generation, best: None):
        if tree is not None:
            tree.add(finished.generation)
        generations.append(finished)
    return generations


@pytest.mark.parametrize("selection", ["tournament", "truncation"])
def test_the_fitness_rises_and_the_best_ever_never_falls(selection: str) -> None:
    parameters = params(selection=selection, generations=12)
    generations = run(parameters, Formula())
    bests = [g.state.best.fitness for g in generations]
    assert bests == sorted(bests)
    assert bests[-1] > score((0.0,) * 12).fitness
    assert [len(g.state.population) for g in generations] == [6] * 12


def test_the_same_seed_gives_the_same_states_in_whatever_order_answers_come() -> None:
    calm = run(params(), Formula())
    hurried = run(params(), Formula(shuffle=random.Random(1)))
    other_seed = run(params(seed=8), Formula())
    assert [g.state for g in calm] == [g.state for g in hurried]
    assert [g.state for g in calm] != [g.state for g in other_seed]


def test_the_modules_own_generator_is_left_alone() -> None:
    random.seed(3)
    expected = random.random()
    random.seed(3)
    run(params(generations=2), Formula())
    assert random.random() == expected


@pytest.mark.parametrize("stopped_after", [1, 2, 4])
def test_a_resumed_run_ends_where_the_undisturbed_one_does(stopped_after: int) -> None:
    parameters = params()
    whole = run(parameters, Formula())
    search = Search(Reflective(), parameters)
    saved = search.to_json(whole[stopped_after - 1].state)
    resumed = run(parameters, Formula(), start=search.from_json(saved))
    assert [g.state for g in resumed] == [g.state for g in whole[stopped_after:]]


def test_only_a_population_without_fitness_is_evaluated() -> None:
    formula = Formula()
    run(params(generations=3, mutation_probability=1.0), formula)
    sizes = {plan.name: len(plan.candidates) for plan in formula.plans}
    # The six clones of generation 0 are one vector.
    assert sizes == {"g0_pop": 1, "g0_child": 4, "g1_child": 4, "g2_child": 4}


def test_elites_enter_the_next_population_unchanged_and_first() -> None:
    generations = run(params(mutation_probability=1.0), Formula())
    for earlier, later in itertools.pairwise(generations):
        best = sorted((e.score.fitness for e in earlier.generation.population), reverse=True)[:2]
        assert [e.score.fitness for e in later.generation.population[:2]] == best


def test_targets_go_round_and_the_position_is_kept_in_the_state() -> None:
    formula = Formula()
    generations = run(params(mutation_probability=1.0, generations=4), formula)
    targets = [m.target for plan in formula.plans for m in plan.candidates if m.target is not None]
    assert targets == [i % 12 for i in range(16)]
    assert generations[-1].state.rr_idx == 16 % 12


def test_a_child_of_a_crossover_is_the_average_weighted_by_fitness() -> None:
    formula = Formula()
    generations = run(params(crossover_probability=1.0, generations=2), formula)
    population = generations[0].state.population
    fitness = [evaluated.score.fitness for evaluated in generations[1].generation.population]
    for candidate in formula.plans[-1].candidates:
        a, b = candidate.parents
        expected = [
            (fitness[a] * x + fitness[b] * y) / (fitness[a] + fitness[b])
            for x, y in zip(population[a].deltas, population[b].deltas, strict=True)
        ]
        assert candidate.deltas == pytest.approx(expected)
        if population[a].scratchpad != population[b].scratchpad:
            assert candidate.merge is not None
            assert (candidate.merge.fitness_a, candidate.merge.fitness_b) == (fitness[a], fitness[b])
    assert any(candidate.merge for candidate in formula.plans[-1].candidates)


def test_equal_scratchpads_are_not_merged() -> None:
    """Given parents that are one individual, or whose scratchpads are both empty or equal, nobody is asked to merge."""
    formula = Formula()
    generations = run(params(crossover_probability=1.0, generations=3), formula)
    pairs = 0
    for number, plan in enumerate(plan for plan in formula.plans if plan.name.endswith("_child")):
        population = [evaluated.genome for evaluated in generations[number].generation.population]
        for candidate in plan.candidates:
            a, b = (population[parent].scratchpad for parent in candidate.parents)
            assert (candidate.merge is None) == (a == b)
            if a == b:
                assert candidate.scratchpad == a
                pairs += 1
        assert number or all(candidate.merge is None for candidate in plan.candidates), "all are empty at the start"
    assert pairs > 4


def test_every_evaluation_keeps_its_deltas_and_scratchpad() -> None:
    """The evaluation of a child before its mutation has the deltas and the scratchpad that it had then."""
    formula = Formula()
    first, last = run(params(mutation_probability=1.0, generations=2), formula)
    assert [(e.genome.deltas, e.genome.scratchpad) for e in last.generation.population] == [
        (member.deltas, member.scratchpad) for member in first.state.population
    ]
    evaluations = zip(
        formula.plans[-1].candidates, last.generation.offspring[::2], last.generation.offspring[1::2], strict=True
    )
    for candidate, before, after in evaluations:
        assert (before.node[-4:], after.node[-4:]) == ("_pre", "_mut")
        assert before.genome.deltas == candidate.deltas
        changed = [i for i, (a, b) in enumerate(zip(before.genome.deltas, after.genome.deltas, strict=True)) if a != b]
        assert changed == [candidate.target] and after.genome.scratchpad == str(candidate.target)


def test_without_crossover_a_child_is_its_one_parent_word_for_word() -> None:
    formula = Formula()
    generations = run(params(crossover_probability=0.0, generations=3, mutation_probability=1.0), formula)
    for generation, plan in zip(generations, formula.plans[2:], strict=False):
        for candidate in plan.candidates:
            parent = generation.state.population[candidate.parents[0]]
            assert (candidate.deltas, candidate.scratchpad, candidate.merge) == (parent.deltas, parent.scratchpad, None)
            assert len(candidate.parents) == 1


def test_a_skipped_mutation_leaves_the_child_as_it_was_and_still_uses_up_its_turn() -> None:
    formula = Formula(skip=frozenset(range(4)))
    tree = EvolutionTree(IDS)
    generations = run(params(mutation_probability=1.0, generations=2), formula, tree)
    assert all(child.target is None for g in generations for child in g.generation.offspring)
    assert not any(node["stage"] == "mut" for node in tree.nodes)
    assert generations[-1].state.rr_idx == 8


def test_the_tree_names_nodes_and_edges_as_the_specification_does() -> None:
    tree = EvolutionTree(IDS)
    run(params(generations=2, mutation_probability=1.0), Formula(), tree)
    ids = {node["id"] for node in tree.nodes}
    assert {"g0_pop0", "g0_child3_pre", "g0_child3_mut", "g1_pop5"} <= ids
    assert len(ids) == len(tree.nodes) == 2 * (6 + 4 + 4)
    kinds = {(e["from"], e["to"]): e["kind"] for e in tree.edges}
    assert kinds["g0_child3_pre", "g0_child3_mut"] == "mutation"
    assert kinds["g0_child3_mut", "g1_pop5"] == "next"
    assert sum(node["elite"] for node in tree.nodes) == 4
    data = json.loads(json.dumps(tree.data()))
    kept = EvolutionTree(IDS)
    kept.restore(data, 1)
    assert {n["generation"] for n in kept.nodes} == {0}
    assert {e["kind"] for e in kept.edges} == {"parent", "mutation", "next"}


def test_all_zero_fitness_gives_the_plain_average() -> None:
    zero = Score(0.0, 0.0, 0.0, 10.0)

    def worthless(plan: Plan) -> list[Outcome]:
        return [Outcome(m.index, "", zero, None, "", None, {}) for m in plan.candidates]

    parameters = params(initial_deltas=(1.0,) * 12, crossover_probability=1.0, generations=1)
    [generation] = Search(Reflective(), parameters).generations(
        Reflective().init(parameters), worthless, lambda generation, best: None
    )
    assert all(g.deltas == (1.0,) * 12 for g in generation.state.population)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"population": []}, "0 individuals"),
        ({"rr_idx": 12}, "rr_idx 12"),
        ({"generation": "soon"}, "not an evolution state"),
        ({"best_individual": {"deltas": {"0": 1}, "scratchpad": ""}}, "clusters"),
    ],
)
def test_a_state_of_another_run_is_refused(change: dict[str, object], says: str) -> None:
    parameters = params()
    search = Search(Reflective(), parameters)
    saved = json.loads(search.to_json(search.init()))
    with pytest.raises(StateError, match=says):
        search.from_json(json.dumps({**saved, **change}))


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
