"""The search of a run: one optimiser in each arm, which take turns generation by generation (`next_arm`).

`evolution_state.json` has the specification's keys for the arm that had the last turn; with several arms "arm" is its
name, and "others" has the states of the others.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from orchestrator.evolve.choice import hypervolume_gain, longest_of
from orchestrator.evolve.optimisers import (
    Best,
    Evaluate,
    Generation,
    Optimiser,
    SearchParams,
    SearchState,
    make_optimiser,
)
from orchestrator.evolve.systems import Arm, Book, System
from orchestrator.report.statistics import Point
from orchestrator.runs.folder import OutputError, OutputFolder, read_json
from orchestrator.settings.inputs import (
    FORK,
    FORK_FILE,
    ForkedArm,
    ForkFile,
    Genome,
    layout_of,
    pinned_of,
    read_population,
)
from orchestrator.settings.options import Settings
from tasks.plan import Evaluations, Outcome

STEPS = 10
"""The standard deviation of a draw is this part of the largest delta."""
Watch = Callable[[Generation, float | None], None]


class BestOfRun(NamedTuple):
    arm: Arm
    best: Best


@dataclass(frozen=True)
class RunState:
    """`generation` is the next one; `states` has the arms that had a turn, `arm` the last of them ("" before)."""

    generation: int = 0
    states: Mapping[str, SearchState] = field(default_factory=dict)
    arm: str = ""


@dataclass(frozen=True)
class FinishedGeneration:
    """A generation of an arm, the state after it, the seconds of its stages, and where its scores came from."""

    arm: Arm
    generation: Generation
    state: RunState
    seconds: Mapping[str, float]
    evaluations: Evaluations


@dataclass(frozen=True)
class Search:
    """`params` has the parameters of each arm's search, by the arm's name."""

    optimiser: Optimiser[Any, Any]
    arms: tuple[Arm, ...]
    params: Mapping[str, SearchParams]

    @cached_property
    def any_params(self) -> SearchParams:
        """What all arms have in common: clusters, generations, size of the population."""
        return self.params[self.arms[0].name]

    def arm(self, name: str) -> Arm:
        return next(one for one in self.arms if one.name == name)

    def best(self, state: RunState) -> BestOfRun | None:
        """The best individual of all arms, by fitness, and its arm; None before the first evaluation."""
        found = [BestOfRun(one, s.best) for one in self.arms if (s := state.states.get(one.name)) and s.best]
        return max(found, key=lambda one: one.best.fitness, default=None)

    def to_json(self, state: RunState) -> str:
        """The text of evolution_state.json."""
        arm = state.arm or self.arms[0].name
        texts = {name: self.optimiser.to_json(one, self.params[name]) for name, one in state.states.items()}
        text = texts.pop(arm, None) or self.optimiser.to_json(self.optimiser.init(self.params[arm]), self.params[arm])
        if len(self.arms) == 1:
            return text
        others = {name: json.loads(one) for name, one in texts.items()}
        values = {**json.loads(text), "arm": state.arm, "others": others}
        return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def from_json(self, text: str) -> RunState:
        values = json.loads(text)
        last, others = values.pop("arm", self.arms[0].name), values.pop("others", {})
        saved = {**others, last: values}
        # In the order of the arms, as in a run that was never interrupted: the file is the same then
        states = {
            arm.name: self.optimiser.from_json(json.dumps(saved[arm.name]), self.params[arm.name])
            for arm in self.arms
            if arm.name in saved
        }
        if not last or states[last].is_new:
            return RunState()
        return RunState(states[last].generation, states, last)

    def generations(
        self, state: RunState, evaluate: Evaluate, watch: Watch, turns: Callable[[], Sequence[Turn]], known: Known
    ) -> Iterator[FinishedGeneration]:
        """The generations that remain, each as soon as its last plan has been evaluated.

        `watch` is called with a generation of which a first plan has been evaluated, and with the best fitness so far.
        `turns` returns those that are recorded; `known` has the systems that were measured before the search.
        """
        while state.generation < self.any_params.generations:
            finished = self._generation(next_arm(self.arms, turns(), known), state, evaluate, watch)
            yield finished
            state = finished.state

    def _generation(self, arm: Arm, state: RunState, evaluate: Evaluate, watch: Watch) -> FinishedGeneration:
        params, optimiser = self.params[arm.name], self.optimiser
        here = dataclasses.replace(state.states.get(arm.name) or optimiser.init(params), generation=state.generation)
        prompt, clustering = arm.system_prompt, arm.clustering
        best, outcomes, plans = self.best(state), list[Outcome](), 0
        while here.generation == state.generation:
            plan, found = optimiser.ask(here, params), list[Outcome]()
            if plan.candidates:
                own = (dataclasses.replace(c, system_prompt=prompt, clustering=clustering) for c in plan.candidates)
                asked = dataclasses.replace(plan, candidates=tuple(own))
                found = sorted(evaluate(asked), key=lambda one: one.index)
            here, generation = optimiser.tell(here, params, plan, found)
            outcomes += found
            plans += 1
            if here.generation == state.generation:
                reached = [one.fitness for one in (here.best, best and best.best) if one]
                watch(generation, max(reached, default=None))
        seconds = Counter[str]()
        for outcome in outcomes:
            seconds.update(outcome.seconds)
        # What a resumed run has evaluated again is not carried over
        carried = Evaluations(carried=generation.carried if plans == 1 else 0)
        evaluations = sum((outcome.evaluations for outcome in outcomes), carried)
        after = RunState(here.generation, {**state.states, arm.name: here}, arm.name)
        return FinishedGeneration(arm, generation, after, seconds, evaluations)


class Turn(NamedTuple):
    """A recorded generation: the name of its arm, and the points of its evaluations."""

    arm: str
    points: Sequence[Point]


class Known(NamedTuple):
    """The points before the search, and the tokens up to which an area counts (`hypervolume`)."""

    points: Sequence[Point]
    longest: float


def known_of(book: Book) -> Known:
    """Without the evolved and random systems, which the book of a run that has ended has too."""
    before = [one for one in book.of_kind("plain", "prompt", "vector") if one.training]
    return Known([one.on("training").point for one in before], longest_of(book.plain.on("training")))


def next_arm(arms: Sequence[Arm], turns: Sequence[Turn], known: Known) -> Arm:
    """Each arm once, then the one whose last turn added most to the front; of equal ones that with the fewest turns."""
    if len(turns) < len(arms):
        return arms[len(turns)]
    seen, gains = list(known.points), dict[str, float]()
    for turn in turns:
        gains[turn.arm] = hypervolume_gain(turn.points, seen, known.longest)
        seen += turn.points
    count = Counter(turn.arm for turn in turns)
    return max(arms, key=lambda arm: (gains[arm.name], -count[arm.name]))


def make_search(settings: Settings, book: Book) -> Search:
    """The search that the settings ask for, in the arms of the book."""
    optimiser, params = make_optimiser(settings.optimiser), {}
    fields = {one.name for one in dataclasses.fields(optimiser.params_type)}
    is_fork = settings.initial_deltas_path == FORK
    forked = read_json(settings.output_dir / FORK_FILE, ForkFile)["arms"] if is_fork else {}
    for arm in book.arms:
        first, *further = starts_of(settings, book, arm, forked.get(arm.name))
        values = {
            "seed": settings.seed,
            "cluster_ids": layout_of(settings).ids,
            "initial_deltas": first.deltas,
            "initial_scratchpad": first.scratchpad,
            "further": tuple(further[: settings.population_size - 1]),
            "generations": settings.ngen,
            "population_size": settings.population_size,
            "pinned": pinned_of(settings),
            "bound": settings.delta_bound,
            "sigma": settings.delta_bound / STEPS,
            "crossover_probability": settings.cxpb,
            "mutation_probability": settings.mutpb,
            "elitism_size": settings.elitism_size,
            "selection": settings.selection,
            "tournament_size": settings.tournament_size,
            "top_k": settings.truncation_top_k,
        }
        params[arm.name] = optimiser.params_type(**{name: value for name, value in values.items() if name in fields})
    return Search(optimiser, book.arms, params)


def starts_of(settings: Settings, book: Book, arm: Arm, forked: ForkedArm | None = None) -> list[Genome]:
    """What the search of an arm begins with; clusters that are pinned have the deltas of the first.

    A fork's population; or the settings' vectors, and the arm's vectors that need no search, the best first.
    """
    ids, pinned = layout_of(settings).ids, pinned_of(settings)
    if forked is not None:
        if arm.clustering != forked["clustering"]:
            raise OutputError(
                f'the arm "{arm.name}" has other clusters than in the run that was forked: its answers differ'
            )
        starts = [Genome(tuple(one["deltas"][i] for i in ids), one["scratchpad"]) for one in forked["population"]]
    else:
        vectors = best_first([one for one in book.of_kind("vector") if one.arm == arm.name])
        given = read_population(settings.initial_deltas_path, layout_of(settings))
        starts = [*given, *(Genome(one.deltas) for one in vectors)]
    first = starts[0].deltas
    return [
        Genome(tuple(first[i] if i in pinned else delta for i, delta in enumerate(one.deltas)), one.scratchpad)
        for one in starts
    ]


def best_first(vectors: Sequence[System]) -> list[System]:
    return sorted(vectors, key=lambda one: (-(point := one.on("training").point).correct, point.mean_tokens))


def load_state(output: OutputFolder, search: Search) -> RunState:
    """The saved state of the run in a folder, or that before the first generation."""
    if not output.state.exists():
        return RunState()
    try:
        return search.from_json(output.state.read_bytes().decode())
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise OutputError(f"{output.state}: {error}") from None
