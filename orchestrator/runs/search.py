"""The search of a run: its optimiser and the parameters that the settings give it, and its generations one by one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.optimisers import make_optimiser
from orchestrator.optimisers.base import Evaluate, Optimiser, SearchParams, SearchState, search
from orchestrator.optimisers.generation import Generation, Genome
from orchestrator.optimisers.individual import canonical_order
from orchestrator.output import OutputError, OutputFolder
from orchestrator.runs.vectors import VECTORS_FILE, read_vectors
from orchestrator.settings import Settings, layout_of, pinned_of
from orchestrator.settings.population import read_population
from orchestrator.settings.references import BEST_VECTOR
from tasks.plan import Evaluations, Outcome

Watch = Callable[[Generation, float | None], None]


@dataclass(frozen=True)
class FinishedGeneration:
    """A generation, the state after it, the seconds that its stages took, by stage, and where its scores came from."""

    generation: Generation
    state: SearchState
    seconds: Mapping[str, float]
    evaluations: Evaluations


@dataclass(frozen=True)
class Search:
    """An optimiser with its parameters."""

    optimiser: Optimiser[Any, Any]
    params: SearchParams

    def to_json(self, state: SearchState) -> str:
        """The text of evolution_state.json."""
        return self.optimiser.to_json(state, self.params)

    def from_json(self, text: str) -> SearchState:
        state: SearchState = self.optimiser.from_json(text, self.params)
        return state

    def init(self) -> SearchState:
        state: SearchState = self.optimiser.init(self.params)
        return state

    def generations(self, state: SearchState, evaluate: Evaluate, watch: Watch) -> Iterator[FinishedGeneration]:
        """The generations that remain, each as soon as its last plan has been evaluated.

        `watch` is called with a generation of which a first plan has been evaluated, and with the best fitness so far.
        """
        totals = _GenerationTotals()
        for turn in search(self.optimiser, state, self.params, evaluate):
            state = turn.state
            totals.add(turn.outcomes)
            if not self.optimiser.ends_generation(turn.plan):
                watch(turn.generation, turn.state.best.fitness if turn.state.best else None)
                continue
            if totals.plans == 1:
                totals.evaluations += Evaluations(carried=turn.generation.carried)
            yield FinishedGeneration(turn.generation, turn.state, dict(totals.seconds), totals.evaluations)
            totals = _GenerationTotals()


@dataclass
class _GenerationTotals:
    """The plans of a generation that have been evaluated: how many, their seconds by stage, and their evaluations."""

    plans: int = 0
    seconds: Counter[str] = field(default_factory=Counter)
    evaluations: Evaluations = field(default_factory=Evaluations)

    def add(self, outcomes: Iterable[Outcome]) -> None:
        self.plans += 1
        for outcome in outcomes:
            self.seconds.update(outcome.seconds)
        self.evaluations += sum((outcome.evaluations for outcome in outcomes), Evaluations())


def make_search(settings: Settings, start: Sequence[float] = ()) -> Search:
    """The search that the settings ask for: each optimiser takes the parameters that it has fields for.

    `start` are the initial deltas where the settings leave them to what is measured before the search.
    """
    given = read_population(settings.initial_deltas_path, layout_of(settings), settings.output_dir)
    ids = canonical_order(list(given[0].deltas))
    first, *further = (Genome(tuple(float(one.deltas[i]) for i in ids), one.scratchpad) for one in given)
    if start:
        first = Genome(tuple(start), "")
    values = {
        "seed": settings.seed,
        "cluster_ids": ids,
        "initial_deltas": first.deltas,
        "initial_scratchpad": first.scratchpad,
        "further": tuple(further),
        "generations": settings.ngen,
        "population_size": settings.population_size,
        "pinned": pinned_of(settings),
        "bound": settings.delta_bound,
        "sigma": settings.step_size,
        "crossover_probability": settings.cxpb,
        "mutation_probability": settings.mutpb,
        "elitism_size": settings.elitism_size,
        "selection": settings.selection,
        "tournament_size": settings.tournament_size,
        "top_k": settings.truncation_top_k,
    }
    optimiser = make_optimiser(settings.optimiser)
    fields = {field.name for field in dataclasses.fields(optimiser.params_type)}
    return Search(optimiser, optimiser.params_type(**{name: values[name] for name in fields}))


def load_search(settings: Settings, output: OutputFolder) -> tuple[Search, SearchState]:
    """The search of the run in a folder, and its saved state, or that at the start."""
    starts_at_best = settings.initial_deltas_path == BEST_VECTOR
    known = read_vectors(output) if starts_at_best else None
    search = make_search(settings, known.start.deltas if known is not None else ())
    state = _load_state(output, search)
    if starts_at_best and known is None and state.best is not None:
        raise OutputError(f"{output.path / VECTORS_FILE} is missing: it says what the search started from")
    return search, state


def _load_state(output: OutputFolder, search: Search) -> SearchState:
    if not output.state.exists():
        return search.init()
    try:
        state = search.from_json(output.state.read_bytes().decode())
    except (OSError, ValueError) as error:
        raise OutputError(f"{output.state}: {error}") from None
    # Where nothing has been evaluated, what the search starts from may have become known since it was written.
    return search.init() if state.generation == 0 and state.best is None else state
